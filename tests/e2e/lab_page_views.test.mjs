// What the lab page shows of a run: the queue at a moment, charts, tiles, two setups side by side.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pageClaim, release } from './lab_page_support.mjs';
import { weir } from './support.mjs';

const SLIDER = 'input[aria-label^="Moment of the run"]';
const plain = (text) => text.replaceAll('\u00a0', ' ');

const momentOf = (page) => page.locator(SLIDER).evaluate((one) => one.valueAsNumber);
const tile = (page, id) => page.locator(`[data-figure="${id}"]`);
const choose = (lab, page, value) =>
  lab.changed(page, () => lab.control(page, 'scheduler').locator(`input[value="${value}"]`).check());

// The table beside the queue: { tenant: [waiting, in flight, finished, failed, refused] }.
async function momentTable(page) {
  const details = page.locator('.v-numbers');
  if (!(await details.evaluate((one) => one.open))) await details.locator('summary').click();
  const rows = await details.locator('tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
  return Object.fromEntries(rows.map(([name, , ...counts]) => [name, counts.map((text) => Number(text.replaceAll(',', '')))]));
}

// The same, counted from the recording that `weir lab` writes of the same run.
async function countedFrom(rig, args, at) {
  const file = path.join(rig.folder(), 'run.csv');
  const { status, err } = await weir(rig.folder(), ['lab', ...args, '--record', file], release);
  assert.equal(status, 0, err);
  const counts = {};
  const [, titles, ...rows] = readFileSync(file, 'utf8').trim().split('\n');
  const column = Object.fromEntries(titles.split(',').map((name, i) => [name, i]));
  for (const row of rows) {
    const cells = row.split(',').map((cell) => cell.replaceAll('"', ''));
    const of = (name) => cells[column[name]];
    const arrival = Number(of('arrival_s'));
    const isRefused = of('outcome') === 'refused';
    const left = arrival + Number(of('queue_wait_s'));
    const end = arrival + Number(of('latency_s'));
    const own = (counts[of('tenant')] ??= [0, 0, 0, 0, 0]);
    if (arrival > at) continue;
    if (isRefused) own[at < end ? 0 : 4]++;
    else if (at < left) own[0]++;
    else if (at < end) own[1]++;
    else own[of('outcome') === 'finished' ? 2 : 3]++;
  }
  return counts;
}

pageClaim('the queue at a moment is what a recording of the same run says, wherever the keys have led', async (lab, rig) => {
  const page = await lab.open();
  const slider = page.locator(SLIDER);
  const first = await momentOf(page);
  assert.ok(first > 0, 'the first moment is one that has something to show');
  assert.deepEqual(await momentTable(page), await countedFrom(rig, ['default', '--seed', '1'], first));
  await slider.focus();
  for (const [key, by] of [['ArrowRight', 1], ['ArrowLeft', -1], ['PageUp', 12], ['PageDown', -12]]) {
    const before = await momentOf(page);
    await page.keyboard.press(key);
    const moved = (await momentOf(page)) - before;
    assert.ok(Math.sign(moved) === Math.sign(by) && Math.abs(moved) >= Math.abs(by) - 1e-6, `${key} goes by ${moved} s`);
  }
  await page.keyboard.press('PageUp');
  const at = await momentOf(page);
  assert.deepEqual(await momentTable(page), await countedFrom(rig, ['default', '--seed', '1'], at));
  assert.match(plain(await slider.getAttribute('aria-valuetext')), /^\d+\.\d s of \d+\.\d s$/);
  const label = plain(await page.locator('.v-picture canvas').getAttribute('aria-label'));
  const waiting = Object.values(await momentTable(page)).reduce((sum, [number]) => sum + number, 0);
  assert.match(label, waiting > 0 ? new RegExp(`Waiting: ${waiting} \\(`) : /Waiting: none/);
  await page.keyboard.press('Home');
  assert.equal(await momentOf(page), 0);
  await page.keyboard.press('End');
  assert.match(plain(await page.locator('.v-moment').textContent()), /^(\d+\.\d s) of \1$/);
});

pageClaim('those refused are told by reason and in number', async (lab) => {
  const page = await lab.open();
  await lab.changed(page, () => lab.control(page, 'preset').selectOption('token-limits'));
  await page.locator(SLIDER).press('End');
  const table = await momentTable(page);
  const refused = Object.values(table).reduce((sum, counts) => sum + counts[4], 0);
  assert.ok(refused > 0, 'a limit refuses some');
  const told = plain(await page.locator('.v-fallen').textContent());
  assert.ok(told.replaceAll(',', '').includes(`× ${refused} rate limit`), told);
  const inTile = plain(await tile(page, 'refused').locator('.v-value').textContent());
  assert.ok(inTile.replaceAll(',', '').startsWith(`${refused} `), inTile);
});

pageClaim('the run is played, faster, paused by space, and begins anew after its end', async (lab) => {
  const page = await lab.open();
  const play = page.locator('.v-play');
  await page.locator(SLIDER).press('Home');
  await page.getByText('16×', { exact: true }).click();
  assert.equal(await play.getAttribute('aria-pressed'), 'false');
  await play.focus();
  await page.keyboard.press(' ');
  await page.waitForFunction((one) => document.querySelector(one).valueAsNumber > 3, SLIDER);
  assert.equal(await play.getAttribute('aria-pressed'), 'true');
  await page.keyboard.press(' ');
  assert.equal(await play.textContent(), 'Play');
  const held = await momentOf(page);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
  assert.equal(await momentOf(page), held, 'paused is paused');
  await page.locator(SLIDER).press('End');
  await play.click();
  await page.waitForFunction((one) => document.querySelector(one).valueAsNumber < 60, SLIDER);
  await page.locator(SLIDER).press('ArrowRight');
  assert.equal(await play.getAttribute('aria-pressed'), 'false', 'moved by hand, it stays there');
  await page.locator(SLIDER).press(' ');
  assert.equal(await play.getAttribute('aria-pressed'), 'true', 'space is for the slider, too');
  await page.locator(SLIDER).press(' ');
  assert.equal(await play.getAttribute('aria-pressed'), 'false');
});

pageClaim('who wants no motion gets steps', async (lab) => {
  const page = await lab.open({ still: true });
  await page.locator(SLIDER).press('Home');
  const steps = await page.evaluate(
    (one) =>
      new Promise((done) => {
        const slider = document.querySelector(one);
        const seen = [];
        const look = () => {
          if (slider.valueAsNumber !== seen.at(-1)) seen.push(slider.valueAsNumber);
          if (seen.length < 3) requestAnimationFrame(look);
          else done(seen);
        };
        document.querySelector('.v-play').click();
        look();
      }),
    SLIDER,
  );
  for (let i = 1; i < steps.length; i++) assert.ok(steps[i] - steps[i - 1] >= 0.9, `a step of ${steps[i] - steps[i - 1]} s`);
  await page.locator('.v-play').click();
});

pageClaim('a chart is dragged to a moment, and its pointer reads the nearest tenant', async (lab) => {
  const page = await lab.open();
  const over = page.locator('[data-chart="wait"] .v-over');
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  const end = await page.locator(SLIDER).evaluate((one) => Number(one.max));
  await page.mouse.move(box.x + box.width * 0.1, box.y + box.height / 2);
  await page.mouse.down();
  assert.ok(Math.abs((await momentOf(page)) - end * 0.1) < end * 0.02, 'a press goes there at once');
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  const at = await momentOf(page);
  assert.ok(Math.abs(at - end / 2) < end * 0.02, `${at} s is the middle of ${end} s`);
  await page.mouse.move(box.x + box.width * 0.2, box.y + box.height - 2);
  await page.locator('[data-chart="wait"] .v-reading').getByText(/^\d+\.\d.s: .+ (0|\d+).ms$/).waitFor();
});

pageClaim('tiles say what a change made better or worse, and that nothing changed', async (lab) => {
  const page = await lab.open();
  assert.equal(await tile(page, 'wait').getAttribute('data-verdict'), 'first');
  await choose(lab, page, 'fifo');
  assert.equal(await tile(page, 'wait').getAttribute('data-verdict'), 'worse');
  assert.match(plain(await tile(page, 'wait').locator('.v-change').textContent()), /▲ \+3\.46 s, worse/);
  assert.match(await tile(page, 'wait').locator('.v-value').textContent(), /missed/);
  assert.match(plain(await tile(page, 'in-goal').locator('.v-change').textContent()), /▼ −[\d.]+ points, worse/);
  assert.equal(await tile(page, 'refused').locator('.v-change').textContent().then((text) => text.trim()), 'no change');
  await choose(lab, page, 'vtc');
  assert.equal(await tile(page, 'wait').getAttribute('data-verdict'), 'better');
  assert.match(plain(await tile(page, 'wait').locator('.v-change').textContent()), /▼ −3\.46 s, better/);
  assert.match(await tile(page, 'wait').locator('.v-value').textContent(), /kept/);
  await lab.shot(page, 'lab-light', { fullPage: false }); // the picture in README.md
});

// What the page is for, in one walk: the same limit in requests and in tokens, and then an order instead of a limit.
pageClaim('a limit in requests lets the agent hurt the apps and says so; one in tokens does not; an order keeps the goal at full throughput', async (lab) => {
  const row = async (page, name) =>
    (await page.locator('.v-legend tr', { hasText: name }).locator('td, th').allTextContents()).map((text) => plain(text.trim()));
  const value = async (page, id) => plain(await tile(page, id).locator('.v-value').textContent());
  const throughput = async (page) => Number((await value(page, 'tokens')).replaceAll(/[^0-9]/g, ''));
  const page = await lab.open({ link: '#default&scheduler=fifo' });
  const unlimited = await throughput(page);

  await lab.set(page, 'limit-kind', 'requests');
  await lab.set(page, 'limit-rate:text', '4/s');
  await lab.set(page, 'agent', false);
  assert.match(await value(page, 'wait'), /kept/, 'without the agent the apps have their goal');
  await lab.set(page, 'agent', true);
  assert.match(await value(page, 'wait'), /missed/);
  assert.equal(await tile(page, 'wait').getAttribute('data-verdict'), 'worse');
  assert.equal(await tile(page, 'in-goal').getAttribute('data-verdict'), 'worse');
  assert.equal((await row(page, 'agent'))[4], '0', 'and the limit refuses none of its requests');

  await lab.set(page, 'limit-kind', 'tokens');
  await lab.set(page, 'limit-rate:text', '9k/s');
  assert.match(await value(page, 'wait'), /^0.ms.*kept/);
  assert.match(await value(page, 'in-goal'), /^100/);
  assert.ok(Number((await row(page, 'agent'))[4]) > 100, 'whom it refuses is the agent');
  assert.deepEqual(await Promise.all(['app-1', 'app-2', 'app-3', 'app-4'].map(async (name) => (await row(page, name))[4])), ['0', '0', '0', '0']);
  const limited = await throughput(page);
  assert.ok(limited < 0.7 * unlimited, `${limited} of ${unlimited} tokens/s`);

  await lab.set(page, 'limit-kind', 'none');
  for (const order of ['vtc', 'drr-cost']) {
    await choose(lab, page, order);
    assert.match(await value(page, 'wait'), /kept/, order);
    assert.ok((await throughput(page)) > 0.99 * unlimited, order);
  }
});

pageClaim('the figures of the tiles and of the table are those of weir lab', async (lab, rig) => {
  const page = await lab.open();
  const { out } = await weir(rig.folder(), ['lab', 'default', '--seed', '1'], release);
  const rows = out.split('\n').filter((line) => /^(app-\d|batch|agent|all) /.test(line));
  assert.equal(rows.length, 7);
  const shown = await page.locator('.v-legend tbody tr, .v-legend tfoot tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
  for (const [i, line] of rows.entries()) {
    const [name, sent, finished, refused, failed, p50, p95, , , tokens, good] = line.split(/ {2,}/);
    const cells = shown[i].map(plain);
    assert.deepEqual([cells[0], ...cells.slice(2, 8)], [name, sent, finished, refused, failed, p50, p95]);
    assert.deepEqual(cells.slice(9), [tokens, good]);
  }
});

pageClaim('two setups stand side by side, with what differs and how', async (lab) => {
  const page = await lab.open();
  await lab.control(page, 'pin').click();
  const compare = page.locator('.v-compare');
  await compare.getByText(/A and B are the same setup/).waitFor();
  await choose(lab, page, 'fifo');
  await compare.locator('.v-differences tbody tr', { hasText: 'scheduler' }).waitFor();
  assert.deepEqual(
    await compare.locator('.v-differences tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent))),
    [['scheduler', 'fifo', 'vtc']],
  );
  const wait = compare.locator('.v-compare-table tbody tr').first();
  assert.deepEqual((await wait.locator('td').allTextContents()).map(plain), ['4.83 s', '1.38 s', '+3.46 s, worse']);
  assert.match(await wait.locator('td').last().getAttribute('class'), /v-worse/, 'in the colour of its word');
  assert.match(plain(await compare.locator('.v-small svg').first().getAttribute('aria-label')), /^app-1, Longest wait, s: A at most 4\.\d+ s, B at most 1\.\d+ s$/);
  await compare.locator('select').selectOption('in-flight');
  assert.match(plain(await compare.locator('.v-small svg').first().getAttribute('aria-label')), /^app-1, In flight/);
  await lab.control(page, 'swap').click();
  await page.locator('.v-differences tbody td').first().getByText('vtc').waitFor();
  await lab.control(page, 'drop-beside').click();
  await compare.waitFor({ state: 'detached' });
});

pageClaim('a tenant is hidden from the pictures by the table, and comes back', async (lab) => {
  const page = await lab.open();
  const button = page.locator('.v-legend').getByRole('button', { name: 'agent' });
  const chart = page.locator('[data-chart="waiting"] .v-plot');
  assert.match(await chart.getAttribute('aria-label'), /agent/);
  await button.click();
  assert.equal(await button.getAttribute('aria-pressed'), 'false');
  assert.doesNotMatch(await chart.getAttribute('aria-label'), /agent/);
  await page.getByText(/1 of the tenants/).waitFor();
  await choose(lab, page, 'fifo');
  assert.equal(await button.getAttribute('aria-pressed'), 'false', 'in the next run, too');
  await button.click();
  assert.match(await chart.getAttribute('aria-label'), /agent/);
});

pageClaim('what is drawn has the colours of the scheme in force', async (lab) => {
  const page = await lab.open();
  // The most frequent colour of the picture, empty places left out.
  const colour = () =>
    page.locator('.v-picture canvas').evaluate((canvas) => {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Map();
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] === 255) {
          const key = data.slice(i, i + 3).join();
          seen.set(key, (seen.get(key) ?? 0) + 1);
        }
      return [...seen].sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
    });
  const drawn = async (other) => {
    for (;;) {
      const now = await colour();
      if (now && now !== other) return now;
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    }
  };
  const light = await drawn('');
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await drawn(light);
  assert.notEqual(dark, light);
});

pageClaim('with two setups and tables open the page is accessible and no wider than its window', async (lab) => {
  const page = await lab.open({ width: 390, dark: true });
  await lab.control(page, 'pin').click();
  await page.locator('.side-toggle').click();
  await choose(lab, page, 'fifo');
  await page.locator('.side-toggle').click();
  await page.locator('.v-compare .v-small').first().waitFor();
  await momentTable(page);
  await lab.assertFits(page, 'the page');
  await lab.assertAccessible(page, 'the page');
  await lab.shot(page, 'views-390-dark');
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
  await lab.assertFits(page, 'the page');
  await lab.shot(page, 'views-1280-light');
});

pageClaim('what a dropped recording says stands beside what the model makes of it', async (lab, rig) => {
  const file = path.join(rig.folder(), 'r.csv');
  const { out, status, err } = await weir(rig.folder(), ['lab', 'noisy', '--record', file, '--json'], release);
  assert.equal(status, 0, err);
  const noisy = JSON.parse(out);
  const page = await lab.open();
  assert.equal(await page.locator('.v-recorded, .v-real').count(), 0, 'nothing is recorded of drawn traffic');
  await lab.changed(page, () => lab.drop(page, 'r.csv', readFileSync(file, 'utf8')));
  await tile(page, 'refused').locator('.v-recorded').waitFor();
  const number = async (id) => Number((await tile(page, id).locator('.v-recorded b').textContent()).replaceAll(',', ''));
  assert.equal(await number('finished'), noisy.all.finished);
  assert.equal(await number('refused'), noisy.all.refused);
  const cells = page.locator('.v-legend tfoot tr td');
  assert.equal(await cells.nth(2).locator('.v-real').textContent(), noisy.all.finished.toLocaleString('en-US'));
});
