// The lab page in Chromium: it opens, it says what `weir lab` says, and each of its controls does what it is for.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { pageClaim, release } from './lab_page_support.mjs';
import { weir } from './support.mjs';

const scenarios = readdirSync(path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../src/cli/scenarios')).map((file) => path.basename(file, '.yaml'));

pageClaim('every scenario has in Chromium the very run that it has in weir lab', async (lab) => {
  assert.ok(scenarios.length >= 10);
  const page = await lab.open();
  for (const name of ['default', ...scenarios.filter((one) => one !== 'default')]) {
    if (name !== 'default') await lab.set(page, 'preset', name);
    const command = await lab.assertNative(page, name);
    assert.equal(command, name === 'default' ? 'weir lab' : `weir lab ${name}`);
  }
});

pageClaim('the page as one file opens from a folder and runs the same', async (lab) => {
  const page = await lab.openFile({ link: '#noisy&seed=7' });
  assert.equal(await lab.assertNative(page), 'weir lab noisy --seed 7');
  await lab.set(page, 'scheduler', 'drr');
  assert.equal(await lab.assertNative(page), 'weir lab noisy --set scheduler=drr --seed 7');
  assert.equal(await lab.control(page, 'download').count(), 0, 'it offers no download of itself');
});

// ---- controls ----

const apps = ['app-1', 'app-2', 'app-3', 'app-4'];
const all = [...apps, 'batch', 'agent'];
const each = (names, made) => names.flatMap((name) => [made(name)].flat().map((set) => ` --set ${set}`)).join('');

// By scenario: control, the value it is given, and what the command then says beside the scenario's name.
const controlTable = {
  default: [
    ['limit-kind', 'requests', each(all, (t) => [`tenants.${t}.limits.requests=6/s`, `tenants.${t}.limits.burst=60`])],
    ['limit-kind', 'tokens', each(all, (t) => [`tenants.${t}.limits.tokens=9k/s`, `tenants.${t}.limits.tokens_burst=90k`])],
    ['scheduler', 'fifo', ' --set scheduler=fifo'],
    ['scheduler', 'drr', ' --set scheduler=drr'],
    ['scheduler', 'drr-cost', ' --set scheduler=drr-cost'],
    ['lanes', true, ' --set tenants.batch.lane=batch'],
    ['batch-rate', 0.9, / --set traffic\.batch\.rate=[\d.]+\/s$/],
    ['burst', false, each(apps, (t) => `traffic.${t}.burst.times=1`)],
    ['agent', false, ' --set traffic.agent.sends=false'],
    ['seed', '5', ' --seed 5'],
    ['permits:backend', 0.5, ' --set upstreams.backend.max_in_flight=32'],
    ['adaptive:backend', true, / --set upstreams\.backend\.adaptive\.min=\d+$/],
    ['output-limit:backend', 0.3, / --set upstreams\.backend\.output_limit=\d+$/],
    ['max-wait', 0.2, / --set limits\.max_wait=\d+ms$/],
    ['waiters', 0.2, / --set limits\.waiters_per_tenant=\d+$/],
    ['replicas:backend', 0, ' --set backend.replicas=1'],
    ['trouble:backend', 'slow', / --set 'backend\.troubles=\[\{kind: slow, replica: 1, /],
    ['trouble:backend', 'fail', / --set 'backend\.troubles=\[\{kind: fail, replica: 1, /],
    ['trouble:backend', 'all', / --set 'backend\.troubles=\[\{kind: fail, from: /],
    ['breaker:backend', false, ' --set upstreams.backend.breaker.failures=0 --set upstreams.backend.breaker.failure_percent=0'],
    ['cooldown:backend', 0.1, / --set upstreams\.backend\.breaker\.cooldown=\d+ms$/],
    ['budget', true, ` --set 'scopes=[{name: all, granted: 2M}]'${each(all, (t) => `tenants.${t}.scope=all`)}`],
    ['client', 'sdk', each(all, (t) => `traffic.${t}.client=sdk`)],
    ['goal', 0.1, new RegExp(`^${each(apps, (t) => `traffic.${t}.goal=\\d+ms`)}$`)],
    ['sends:app-1', false, ' --set traffic.app-1.sends=false'],
    ['rate:app-1:text', '3/s', ' --set traffic.app-1.rate=3/s'],
    ['weight:app-1:text', '4', ' --set tenants.app-1.weight=4'],
    ['lane:app-1', 'batch', ' --set tenants.app-1.lane=batch'],
    ['limit-kind:app-1', 'tokens', ' --set tenants.app-1.limits.tokens=9k/s --set tenants.app-1.limits.tokens_burst=90k'],
    ['client:app-1', 'sdk', ' --set traffic.app-1.client=sdk'],
  ],
  'token-limits': [
    ['limit-rate', 0.3, new RegExp(`^${each([...apps, 'agent'], (t) => `tenants.${t}.limits.tokens=[\\d.]+k/s`)}$`)],
    ['limit-bucket', 0.2, new RegExp(`^${each([...apps, 'agent'], (t) => `tenants.${t}.limits.tokens_burst=\\d+k`)}$`)],
    ['over', 'wait', each([...apps, 'agent'], (t) => `tenants.${t}.limits.over=wait`)],
    ['limit-kind', 'none', each([...apps, 'agent'], (t) => `tenants.${t}.limits.tokens=none`)],
    ['limit-rate:agent:text', '100/s', ' --set tenants.agent.limits.tokens=100/s'],
    ['limit-bucket:agent:text', '20k', ' --set tenants.agent.limits.tokens_burst=20k'],
    ['over:agent', 'wait', ' --set tenants.agent.limits.over=wait'],
  ],
  lanes: [
    ['floor:batch', 0.9, ' --set lanes.batch.floor=54'],
    ['lanes', false, ' --set tenants.job.lane=interactive'],
  ],
  budget: [
    ['budget:class/a', 0.1, / --set scopes\.class\/a\.granted=[\d.]+k$/],
    ['overrun:class/a', 'cut', ' --set scopes.class/a.on_overrun=cut'],
  ],
  failing: [['trouble:main', 'none', / --set 'backend\.upstreams\.main\.troubles=\[\]'|troubles/]],
};
// What no run comes of, or what has a test of its own.
const otherControls = /^((exhausted|fallback):.*|preset|undo|redo|reset|pin|swap|drop-beside|take|copy-\w+|download|missions|next-seed|file|token)$/;

for (const [name, rows] of Object.entries(controlTable))
  pageClaim(`${name}: each control sets what it says, the run is that of the command, and undo takes it back`, async (lab) => {
    const page = await lab.open({ link: `#${name}` });
    await lab.unfold(page);
    const unchanged = await lab.command(page);
    const hash = await lab.hash(page);
    for (const [id, value, expected] of rows) {
      await lab.set(page, id, value);
      const said = (await lab.assertNative(page, id)).slice(unchanged.length);
      if (expected instanceof RegExp) assert.match(said, expected, id);
      else assert.equal(said, expected, id);
      await lab.control(page, 'undo').click();
      assert.equal(await lab.hash(page), hash, `${id} is taken back`);
    }
  });

pageClaim('every control that a scenario has is in the table above', async (lab) => {
  const kinds = new Set(Object.values(controlTable).flatMap((rows) => rows.map(([id]) => id.replace(/:.*/, ''))));
  const page = await lab.open();
  for (const name of Object.keys(controlTable)) {
    if (name !== 'default') await lab.set(page, 'preset', name);
    const ids = await page.locator('[data-control]').evaluateAll((list) => list.map((one) => one.dataset.control));
    const unknown = ids.filter((id) => !otherControls.test(id) && !kinds.has(id.replace(/:.*/, '')));
    // An upstream without another has no fallback, and so on: what is missing in one scenario is in another.
    assert.deepEqual(unknown, [], name);
  }
});

// ---- what is not taken ----

pageClaim('a value that cannot be: the words of weir check beside it, and what is shown stays', async (lab) => {
  const page = await lab.open({ link: '#budget' });
  await lab.unfold(page);
  const hash = await lab.hash(page);
  await lab.set(page, 'exhausted:class/a', 'queue');
  assert.match(await lab.problems(page), /on_exhausted: queue waits for the next window, and period none has no next one/);
  assert.equal(await lab.hash(page), hash);
  assert.equal(await lab.command(page), 'weir lab budget');
  await lab.set(page, 'weight:team-a:text', 'heavy');
  assert.match(await lab.problems(page), /weight .*'heavy'/);
  assert.equal(await lab.control(page, 'weight:team-a:text').getAttribute('aria-invalid'), 'true');
  assert.equal(await lab.hash(page), hash);
  await lab.set(page, 'weight:team-a:text', '3');
  assert.equal(await lab.assertNative(page), 'weir lab budget --set tenants.team-a.weight=3');
  assert.equal(await page.locator('[data-problems]').count(), 0, 'what was wrong is forgotten once something is right');
  await lab.set(page, 'preset', 'failing');
  await lab.unfold(page);
  await lab.set(page, 'fallback:spare', 'main');
  assert.match(await lab.problems(page), /failing:\d+:\d+: fallbacks go round in a circle/);
  assert.equal(await lab.assertNative(page), 'weir lab failing');
});

const wrongFiles = [
  ['weir.yaml', 'upstreams:\n  - name: a\n    url: http://127.0.0.1:1/v1\n    wieght: 4\ntraffic: {tenants: [{name: a, rate: 1/s, prompt: 9, output: 9}]}\n', /weir\.yaml:4:5: unknown key 'wieght' in upstreams/],
  ['tabs.yaml', 'upstreams:\n\t- name: a\n', /tabs\.yaml:2:1: /],
  ['open.yaml', 'upstreams: [{name: "a\n', /open\.yaml:\d+:\d+: /],
  ['columns.csv', 'arrival_s,tenant,prompt_tokens\n0.1,a,3\n', /columns\.csv.*output_tokens/],
  ['row.csv', 'arrival_s,tenant,prompt_tokens,output_tokens\n0.1,a,3,4\n0.2,a,three,4\n', /row\.csv:3.*three/],
  ['picture.png', '\u0089PNG\r\n\u001a\n\u0000\u0000', /picture\.png: .*binary/],
  ['empty.yaml', '', /empty\.yaml: is empty/],
  ['letter.txt', 'Dear engineer,\nplease look.\n', /letter\.txt: is neither a configuration .* nor a trace/],
];

pageClaim('a bad file that is dropped: what, where, what to do; and what is shown stays', async (lab) => {
  const page = await lab.open();
  const hash = await lab.hash(page);
  for (const [name, text, expected] of wrongFiles) {
    await lab.drop(page, name, text);
    await page.locator('[data-problems]', { hasText: name }).waitFor();
    assert.match(await lab.problems(page), expected, name);
    assert.equal(await lab.hash(page), hash, name);
  }
  await lab.assertAccessible(page, 'the page with a problem');
});

// ---- files of one's own ----

pageClaim('a configuration that is dropped runs as weir lab runs it; without traffic, some is offered', async (lab, rig) => {
  const folder = rig.folder();
  const own = 'upstreams:\n  - {name: up, url: "http://127.0.0.1:9/v1", max_in_flight: 3}\ntenants:\n  - {name: alpha, weight: 3}\n  - {name: beta}\n';
  const traffic = 'traffic:\n  time: 60s\n  tenants:\n    - {name: alpha, rate: 2/s, prompt: 400, output: 200}\n    - {name: beta, rate: 2/s, prompt: 400, output: 200}\n';
  writeFileSync(path.join(folder, 'mine.yaml'), own + traffic);
  const page = await lab.open();
  await lab.changed(page, () => lab.drop(page, 'mine.yaml', own + traffic));
  assert.equal(await lab.hash(page), await lab.nativeHash(await lab.command(page), folder));
  assert.equal(await lab.command(page), 'weir lab mine.yaml');

  await lab.drop(page, 'bare.yaml', own);
  const offer = page.getByRole('region', { name: 'Traffic for the configuration' });
  assert.match(await offer.innerText(), /alpha, beta/);
  const added = await offer.locator('pre').innerText();
  await lab.changed(page, () => offer.getByRole('button', { name: 'Add this traffic' }).click());
  writeFileSync(path.join(folder, 'bare.yaml'), `${own}\n${added}`);
  assert.equal(await lab.hash(page), await lab.nativeHash(await lab.command(page), folder));
});

pageClaim('a recording that is dropped is sent as weir lab --trace sends it, and what really happened stands beside it', async (lab, rig) => {
  const folder = rig.folder();
  const recorded = await weir(folder, ['lab', 'noisy', '--record', path.join(folder, 'run.csv')], release);
  assert.equal(recorded.status, 0, recorded.err);
  const page = await lab.open({ link: '#noisy' });
  const drawn = await lab.hash(page);
  await lab.changed(page, () => lab.drop(page, 'run.csv', readFileSync(path.join(folder, 'run.csv'), 'utf8')));
  assert.equal(await lab.command(page), 'weir lab noisy --trace run.csv');
  assert.equal(await lab.hash(page), await lab.nativeHash(await lab.command(page), folder));
  await page.getByText('really').first().waitFor();
  await lab.assertAccessible(page, 'the page with a recording');
  await lab.changed(page, () => page.getByRole('button', { name: 'Back to drawn traffic' }).click());
  assert.equal(await lab.hash(page), drawn);
});

pageClaim("this gateway's own configuration: asked for with the admin token, which is kept nowhere", async (lab) => {
  const page = await lab.open();
  const { token } = await lab.gateway();
  await lab.unfold(page);
  const field = lab.control(page, 'token');
  const go = page.getByRole('button', { name: "Use this gateway's configuration" });
  await field.fill('not-the-token');
  await go.click();
  await page.getByText('does not take this token (401)').waitFor();
  await field.fill(token);
  await go.click();
  await page.getByRole('region', { name: 'Traffic for the configuration' }).waitFor();
  await lab.changed(page, () => page.getByRole('button', { name: 'Add this traffic' }).click());
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state]));
  assert.ok(!kept.includes(token));
}, { complaints: [/^401: .*\/v1\/config$/, /console error: .*401/] });

// ---- taking it away, and finding it again ----

pageClaim('the link restores the setup and what is beside it, in a browser that knows nothing of it', async (lab) => {
  const page = await lab.open({ link: '#request-limits' });
  await lab.control(page, 'pin').click();
  await lab.set(page, 'limit-kind', 'tokens');
  await lab.set(page, 'scheduler', 'vtc');
  await lab.set(page, 'seed', '11');
  const command = await lab.assertNative(page);
  const link = await lab.takeHome(page, async (what) => {
    assert.equal(await what('copy-command'), command);
    return what('copy-link');
  });
  assert.ok(link.startsWith(`${await lab.address()}#request-limits&seed=11&`), link);
  const again = await lab.open({ at: link });
  assert.equal(await lab.hash(again), await lab.hash(page));
  assert.equal(await lab.command(again), command);
  await lab.control(again, 'drop-beside').waitFor();
  // The same link, in the file.
  const file = await lab.openFile({ link: new URL(link).hash });
  assert.equal(await lab.hash(file), await lab.hash(page));
});

pageClaim('a link that is damaged says what is wrong, and the page is there all the same', async (lab) => {
  const page = await lab.open({ link: '#nothing-of-that-name' });
  assert.match(await lab.problems(page), /nothing-of-that-name/);
  assert.equal(await lab.assertNative(page), 'weir lab');
  for (const [link, expected] of [
    ['#default&seed=soon', /seed is "soon"/],
    ['#default&scheduler=lifo', /scheduler.*lifo/],
    ['#default&%zz=1', /%/],
    ['#file%3Amine.yaml&text=AAAA', /cannot be unpacked/],
  ]) {
    await page.evaluate((to) => (location.hash = to), link);
    await page.locator('[data-problems]', { hasText: expected }).waitFor();
    assert.equal(await lab.command(page), 'weir lab', link);
  }
});

pageClaim('copy as weir.yaml: weir check takes it, and it runs to the same hash, for every scenario', async (lab, rig) => {
  const page = await lab.open();
  for (const name of scenarios) {
    await lab.set(page, 'preset', name);
    if (name === 'default') await lab.set(page, 'limit-kind', 'tokens');
    await lab.unfold(page);
    await lab.set(page, 'max-wait', 0.31);
    const hash = await lab.hash(page);
    const folder = rig.folder();
    const file = path.join(folder, 'weir.yaml');
    writeFileSync(file, await lab.takeHome(page, (what) => what('copy-yaml')));
    const checked = await weir(folder, ['check', '-c', file, '--no-credentials'], release);
    assert.equal(checked.status, 0, `${name}: ${checked.err}`);
    assert.equal(await lab.nativeHash('weir lab weir.yaml', folder), hash, name);
  }
});

// ---- hands and eyes ----

pageClaim('everything can be done by keyboard, and goes back where it was', async (lab) => {
  const page = await lab.open({ link: '#token-limits' });
  const first = await lab.hash(page);
  const focused = () => page.evaluate(() => document.activeElement.closest('[data-control]')?.dataset.control ?? document.activeElement.tagName);
  // From the start of the page, tabs alone lead to every part of it.
  const reached = new Set();
  for (let i = 0; i < 200 && !(reached.size > 3 && (await page.evaluate(() => document.activeElement === document.body))); i++) {
    await page.keyboard.press('Tab');
    reached.add(await focused());
  }
  for (const id of ['preset', 'missions', 'pin', 'take', 'limit-kind', 'limit-rate', 'scheduler', 'seed', 'burst']) assert.ok(reached.has(id), `Tab reaches ${id}`);

  await lab.control(page, 'scheduler').locator('input:checked').focus();
  await page.keyboard.press('ArrowRight');
  await lab.shows(page, /^weir lab token-limits --set scheduler=drr$/);
  await lab.control(page, 'limit-rate').focus();
  await page.keyboard.press('PageDown');
  await lab.shows(page, /tokens=5\.\d+k\/s/);
  await lab.control(page, 'burst').focus();
  await page.keyboard.press('Space');
  await lab.shows(page, /tokens=5\.\d+k\/s.*burst\.times=1/);
  await lab.assertNative(page);
  for (let i = 0; i < 6; i++) await page.keyboard.press('Control+z');
  await lab.shows(page, /^weir lab token-limits$/);
  assert.equal(await lab.hash(page), first);
  await page.keyboard.press('Control+Shift+z');
  await lab.shows(page, /^weir lab token-limits --set scheduler=drr$/);
  await page.keyboard.press('Control+y');
  await lab.shows(page, /tokens=5\.\d+k\/s/);

  await lab.control(page, 'take').focus();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  assert.ok(await page.evaluate(() => document.querySelector('dialog[open]').contains(document.activeElement)), 'focus goes into the dialog');
  await page.keyboard.press('Escape');
  assert.equal(await focused(), 'take', 'and comes back');
});
