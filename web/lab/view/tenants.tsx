// Tenants in a table: the figures, which are the charts' data for whoever does not see them, and each tenant's own
// settings. The swatch is the tenant's colour everywhere.
import type { TenantFigures } from "../engine/types";
import { tenantRows } from "../state/held";
import { pointed, run } from "../state/store";
import { ControlField } from "./controls";
import { figure, type Unit } from "./format";

interface Column {
  key: keyof TenantFigures;
  title: string;
  unit: Unit;
  shownUnit: string;
  help: string;
}

const columns: readonly Column[] = [
  { key: "sent", title: "sent", unit: "count", shownUnit: "requests", help: "Requests that its users had; each is counted once, however often it was tried." },
  { key: "finished", title: "finished", unit: "count", shownUnit: "requests", help: "Answered in full." },
  { key: "refused", title: "refused", unit: "count", shownUnit: "requests", help: "The last try was refused." },
  { key: "failed", title: "failed", unit: "count", shownUnit: "requests", help: "Ended with an error, a cut answer, or a client that had enough." },
  { key: "waitP50", title: "wait p50", unit: "seconds", shownUnit: "in the queue", help: "Half of the tries that were dispatched waited at most so long." },
  { key: "waitP95", title: "wait p95", unit: "seconds", shownUnit: "in the queue", help: "95 % of the tries that were dispatched waited at most so long." },
  { key: "waitP99", title: "wait p99", unit: "seconds", shownUnit: "in the queue", help: "99 % of the tries that were dispatched waited at most so long." },
  { key: "firstP50", title: "first p50", unit: "seconds", shownUnit: "to first token", help: "From the first try to the first token, for half of the answers." },
  { key: "tokensPerSecond", title: "tokens/s", unit: "rate", shownUnit: "served", help: "Prompt and output of finished requests, over the run." },
  { key: "goodShare", title: "in goal", unit: "share", shownUnit: "of sent", help: "Of what was sent: finished, and dispatched within the tenant's goal." },
];

const tenantColour = (tenant: number): string => `var(--t${tenant % 10})`;

export function Swatch({ tenant }: { tenant: number }) {
  return <span class="swatch" style={{ background: tenantColour(tenant) }} />;
}

function Row({ name, figures, tenant }: { name: string; figures: TenantFigures; tenant: number }) {
  return (
    <tr
      class={pointed.value === tenant && tenant >= 0 ? "pointed" : undefined}
      onPointerEnter={() => (pointed.value = tenant)}
      onPointerLeave={() => (pointed.value = -1)}
    >
      <th scope="row">
        {tenant >= 0 && <Swatch tenant={tenant} />}
        {name}
      </th>
      {columns.map((column) => (
        <td key={column.key} class={(column.key === "refused" || column.key === "failed") && figures[column.key] > 0 ? "counts" : undefined}>
          {figure(column.unit, figures[column.key])}
        </td>
      ))}
    </tr>
  );
}

export function TenantTable() {
  const shown = run.value;
  if (!shown) return null;
  const { result } = shown;
  return (
    <div class="scroll" role="region" aria-label="Figures of each tenant" tabIndex={0}>
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">tenant</th>
            {columns.map((column) => (
              <th scope="col" key={column.key} title={column.help}>
                {column.title}
                <small>{column.shownUnit}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {result.tenants.map((tenant, i) => (
            <Row name={tenant.name} figures={tenant} tenant={i} key={tenant.name} />
          ))}
        </tbody>
        <tfoot>
          <Row name="all" figures={result.all} tenant={-1} />
        </tfoot>
      </table>
    </div>
  );
}

const settings = [
  ["sends", "sends"],
  ["rate", "requests"],
  ["weight", "weight"],
  ["lane", "lane"],
  ["limit-kind", "limit"],
  ["limit-rate", "rate"],
  ["limit-bucket", "bucket"],
  ["over", "above it"],
  ["client", "client"],
] as const;

/** Weight, lane, limit and traffic of each tenant. */
export function TenantSettings() {
  const rows = tenantRows.value;
  const place = new Map(run.value?.setup.tenants.map((tenant, i) => [tenant.name, i]));
  const used = settings.filter(([key]) => rows.some((row) => row.cells.has(key)));
  if (rows.length === 0) return null;
  return (
    <details class="more" id="tenant-settings">
      <summary>
        <h3>Settings of each tenant</h3>
      </summary>
      <div class="scroll" role="region" aria-label="Settings of each tenant" tabIndex={0}>
        <table class="settings">
          <thead>
            <tr>
              <th scope="col">tenant</th>
              {used.map(([key, title]) => (
                <th scope="col" key={key} title={rows.find((row) => row.cells.has(key))?.cells.get(key)?.help}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">
                  {place.has(row.name) && <Swatch tenant={place.get(row.name) ?? 0} />}
                  {row.name}
                </th>
                {used.map(([key]) => {
                  const control = row.cells.get(key);
                  return <td key={key}>{control ? <ControlField control={control} isBare /> : "–"}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
