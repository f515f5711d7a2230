// What is set for each tenant, in a table. The swatch is the tenant's colour everywhere.
import { tenantRows } from "../state/held";
import { run } from "../state/store";
import { tenantColour } from "./colours";
import { ControlField } from "./controls";
import { Fold } from "./fold";

function Swatch({ tenant }: { tenant: number }) {
  return <span class="swatch" style={{ background: tenantColour(tenant) }} />;
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

function Rows() {
  const rows = tenantRows.value;
  const place = new Map(run.value?.setup.tenants.map((tenant, i) => [tenant.name, i]));
  const used = settings.filter(([key]) => rows.some((row) => row.cells.has(key)));
  return (
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
  );
}

/** Weight, lane, limit and traffic of each tenant. */
export function TenantSettings() {
  return (
    <Fold title="Settings of each tenant" kind="card more">
      <Rows />
    </Fold>
  );
}
