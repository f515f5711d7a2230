// The lab page as it looks: on a desk and on a phone, light and dark, folded and not. WEIR_SHOTS=FOLDER keeps pictures.
import { pageClaim } from './lab_page_support.mjs';

for (const [what, options] of Object.entries({
  'at 1280 px, light': { width: 1280 },
  'at 1280 px, dark': { width: 1280, dark: true },
  'at 390 px, light': { width: 390, height: 844, touch: true },
  'at 390 px, dark': { width: 390, height: 844, touch: true, dark: true, still: true },
}))
  pageClaim(`${what}: axe finds nothing, and nothing reaches over the edge, whatever is open`, async (lab) => {
    const page = await lab.open({ link: '#token-limits', ...options });
    const name = what.replaceAll(/[^a-z0-9]+/g, '-');
    await lab.shot(page, `page-${name}`);
    await lab.assertFits(page);
    await lab.assertAccessible(page);
    await lab.unfold(page);
    await lab.control(page, 'pin').click();
    await lab.set(page, 'limit-kind', 'none');
    await lab.control(page, 'drop-beside').waitFor();
    await lab.shot(page, `unfolded-${name}`);
    await lab.assertFits(page, 'the page unfolded, with a setup beside');
    await lab.assertAccessible(page, 'the page unfolded, with a setup beside');
    for (const id of ['take', 'missions']) {
      await lab.control(page, id).click();
      await page.locator('dialog[open]').waitFor();
      await lab.shot(page, `${id}-${name}`, { fullPage: false });
      await lab.assertFits(page, id);
      await lab.assertAccessible(page, id);
      await page.keyboard.press('Escape');
    }
  });
