// The tenants as a table: the charts' legend, and their figures for those who read numbers.
import type { TenantFigures } from "../engine/types";
import { pointed } from "../state/store";
import { tenantColour } from "./colours";
import { figure, seconds, type Unit } from "./format";
import { settledRun } from "./settled";
import { shown, toggle } from "./shown";

interface Column {
  title: string;
  help: string;
  unit: Unit;
  value(figures: TenantFigures): number;
}

const columns: readonly Column[] = [
  { title: "sent", help: "Requests that its users had", unit: "count", value: (f) => f.sent },
  { title: "finished", help: "Answered in full", unit: "count", value: (f) => f.finished },
  { title: "refused", help: "The last try was refused", unit: "count", value: (f) => f.refused },
  { title: "failed", help: "An error, a cut answer, or a client that had enough", unit: "count", value: (f) => f.failed },
  { title: "wait p50", help: "Half of the dispatched waited less", unit: "seconds", value: (f) => f.waitP50 },
  { title: "wait p95", help: "95 of 100 dispatched waited less", unit: "seconds", value: (f) => f.waitP95 },
  { title: "first p95", help: "From the first try to the first token, 95 of 100", unit: "seconds", value: (f) => f.firstP95 },
  { title: "tokens/s", help: "Prompt and output of finished requests, over the run", unit: "rate", value: (f) => f.tokensPerSecond },
  { title: "in goal", help: "Of what was sent: finished, and dispatched within the goal", unit: "share", value: (f) => f.goodShare },
];

function Cells({ figures, recorded }: { figures: TenantFigures; recorded: TenantFigures | undefined }) {
  return (
    <>
      {columns.map(({ title, unit, value }) => (
        <td key={title}>
          {figure(unit, value(figures))}
          {recorded && <span class="v-real">{figure(unit, value(recorded))}</span>}
        </td>
      ))}
    </>
  );
}

export function Legend() {
  const of = settledRun.value;
  if (!of) return null;
  const visible = new Set(shown.value);
  const { tenants, all, allRecorded } = of.result;
  return (
    <div class="v-scroll v-legend" tabIndex={0} role="region" aria-label="Figures by tenant">
      <table>
        <caption>
          Figures by tenant. A tenant's button hides its line, or shows it.
          {allRecorded && " In italics: as recorded."}
        </caption>
        <thead>
          <tr>
            <th scope="col">tenant</th>
            <th scope="col" title="Longest wait in the queue that meets the goal">
              goal
            </th>
            {columns.map(({ title, help }) => (
              <th key={title} scope="col" title={help}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onPointerLeave={() => (pointed.value = -1)}>
          {tenants.map((tenant, t) => {
            const isShown = visible.has(t);
            const setup = of.setup.tenants[t];
            return (
              <tr
                key={tenant.name}
                class={pointed.value === t ? "v-pointed" : ""}
                onPointerEnter={() => (pointed.value = isShown ? t : -1)}
              >
                <th scope="row">
                  <button
                    type="button"
                    aria-pressed={isShown}
                    title={setup && `lane ${setup.lane}, weight ${setup.weight}`}
                    onClick={() => toggle(tenant.name, isShown)}
                    onFocus={() => (pointed.value = isShown ? t : -1)}
                    onBlur={() => (pointed.value = -1)}
                  >
                    <i class="v-swatch" style={isShown ? { background: tenantColour(t) } : {}} />
                    {tenant.name}
                  </button>
                </th>
                <td>{seconds(setup?.goal ?? NaN)}</td>
                <Cells figures={tenant} recorded={tenant.recorded} />
              </tr>
            );
          })}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">all</th>
            <td />
            <Cells figures={all} recorded={allRecorded} />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
