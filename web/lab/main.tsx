import { render } from "preact";
import "./style.css";

const page = document.getElementById("page");
if (page) render(<main>weir lab</main>, page);
