// How the lab page's controls behave under a hand and under keys: dragging, undo, refusals, the link, files, what is
// said of a change. What each control sets, on every scenario: lab_page.test.mjs and web/test/controls.test.mjs.
import assert from 'node:assert/strict';
import { pageClaim } from './lab_page_support.mjs';

const setsOf = async (lab, page) => (await lab.link(page)).sets;

pageClaim('a slider that is dragged is one step back, and its value can be given exactly', async (lab) => {
  const page = await lab.open();
  const before = await lab.hash(page);
  const slider = lab.control(page, 'batch-rate');
  await lab.changed(page, async () => {
    const box = await slider.boundingBox();
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
    await page.mouse.down();
    for (const place of [0.65, 0.7, 0.75, 0.8, 0.9]) await page.mouse.move(box.x + box.width * place, box.y + box.height / 2);
    await page.mouse.up();
  });
  await lab.changed(page, () => lab.control(page, 'undo').click());
  assert.equal(await lab.hash(page), before);
  assert.equal(await lab.control(page, 'undo').isDisabled(), true);
  await lab.set(page, 'batch-rate:text', '333/m');
  assert.deepEqual(await setsOf(lab, page), ['traffic.batch.rate=333/m']);
  assert.equal(await lab.control(page, 'undo').getAttribute('aria-label'), 'Undo Batch rate: 333/m');
});

pageClaim('a value that is refused is told at its control in the words of the loader, and the run stays', async (lab) => {
  const page = await lab.open({ link: '#token-limits' });
  const before = await lab.hash(page);
  const field = lab.control(page, 'limit-rate:text');
  await field.fill('fast');
  await field.press('Enter');
  const problem = page.locator('.field .problem');
  await problem.waitFor();
  assert.match(await problem.textContent(), /tokens must be a rate .* not 'fast'/);
  assert.equal(await field.getAttribute('aria-invalid'), 'true');
  assert.equal(await field.inputValue(), 'fast', 'what was typed stays, to be mended');
  assert.equal(await page.locator(`#${await field.getAttribute('aria-describedby')}`).count(), 1);
  assert.equal(await lab.hash(page), before);
  await lab.set(page, 'limit-rate:text', '8k/s');
  assert.equal(await problem.count(), 0);
});

pageClaim('by keys alone: a segment, a slider, undo and redo, the panel that is left with Escape', async (lab) => {
  const page = await lab.open();
  const before = await lab.hash(page);
  await lab.control(page, 'scheduler').locator('input:checked').focus();
  const fifo = await lab.changed(page, () => page.keyboard.press('ArrowRight')); // round to the first
  assert.deepEqual(await setsOf(lab, page), ['scheduler=fifo']);
  await lab.changed(page, () => page.keyboard.press('Control+z'));
  assert.equal(await lab.hash(page), before);
  await lab.changed(page, () => page.keyboard.press('Control+Shift+z'));
  assert.equal(await lab.hash(page), fifo);
  await lab.control(page, 'batch-rate').focus();
  await lab.changed(page, () => page.keyboard.press('Home'));
  assert.match(await lab.control(page, 'batch-rate').getAttribute('aria-valuetext'), /^0\.1\/s requests$/);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.control), 'batch-rate', 'the focus stays');
  const rates = [];
  for (const key of ['ArrowRight', 'ArrowUp', 'ArrowLeft', 'End', 'ArrowRight', 'ArrowDown']) {
    await page.keyboard.press(key);
    await lab.settled(page);
    rates.push(await lab.control(page, 'batch-rate:text').inputValue());
  }
  assert.deepEqual(rates, ['6.6/m', '7.2/m', '6.6/m', '40/s', '40/s', '39/s'], 'a key goes to the next value');
  await lab.control(page, 'take').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.dataset.control), 'take');
  const fresh = await lab.open();
  await fresh.keyboard.press('Tab');
  assert.equal(await fresh.evaluate(() => document.activeElement.textContent), 'Skip to the results');
  await fresh.keyboard.press('Enter');
  assert.equal(await fresh.evaluate(() => document.activeElement.id), 'results');
  assert.deepEqual(await lab.link(fresh), { name: 'default', seed: 1, sets: [] }, 'and the address still holds the setup');
});

pageClaim('what a change did is said once, politely', async (lab) => {
  const page = await lab.open();
  await lab.set(page, 'scheduler', 'fifo');
  await page.waitForFunction(() => document.querySelector('[data-said]').textContent.includes(', was '));
  assert.equal(await page.locator('[data-said]').textContent(), 'Interactive wait, p95: 4.83 s, was 1.38 s. In goal: 64.1 %, was 99.8 %. Refused: 0, was 0.');
});

pageClaim('a link restores setup, seed and what stands beside; going back in the browser too', async (lab) => {
  const page = await lab.open({ link: '#overload&seed=3' });
  await lab.control(page, 'pin').click();
  await lab.set(page, 'scheduler', 'drr');
  const hash = await lab.hash(page);
  await page.waitForFunction(() => location.hash.includes('beside=') && location.hash.includes('scheduler=drr'));
  const other = await lab.open({ at: page.url() });
  assert.equal(await lab.hash(other), hash);
  await other.getByRole('heading', { name: 'Side by side' }).waitFor();
  await other.waitForFunction(() => location.hash.includes('beside='));
  assert.equal(other.url(), page.url());
  await other.evaluate(() => (location.hash = '#lanes'));
  await other.getByText('Apps go before a batch job').waitFor();
  assert.deepEqual(await lab.link(other), { name: 'lanes', seed: 1, sets: [] });
});

pageClaim('a bad dropped file is told with line and column; a right one runs, is in the link, and can be left again', async (lab) => {
  const page = await lab.open();
  const before = await lab.hash(page);
  const said = page.locator('[data-problems]');
  await lab.drop(page, 'bad.yaml', 'upstreams:\n- {name: a, url: "http://h", max_in_flight: many}\ntraffic: {tenants: [{name: x, rate: 1/s}]}\n');
  await said.waitFor();
  assert.match(await said.textContent(), /bad\.yaml:2:\d+: max_in_flight must be a whole number/);
  assert.equal(await lab.hash(page), before);
  await lab.drop(page, 'image.png', '\u0089PNG\u0000\u0000');
  await page.getByText('image.png: is a binary file').waitFor();
  await lab.drop(page, 'letter.txt', 'Dear all,\n');
  await page.getByText('letter.txt: is neither a configuration').waitFor();
  await lab.changed(page, () => lab.drop(page, 'mine.yaml', '# Mine.\nupstreams: [{name: a, url: "http://h"}]\ntraffic: {tenants: [{name: x, rate: 1/s}]}\n'));
  assert.equal(await said.count(), 0);
  await page.waitForFunction(() => location.hash.startsWith('#file:mine.yaml&text='));
  const other = await lab.open({ at: page.url() });
  assert.equal(await lab.hash(other), await lab.hash(page));
  await lab.changed(page, () => page.keyboard.press('Control+z'));
  assert.equal(await lab.hash(page), before);
});

pageClaim('a configuration without traffic is offered some, and shows what is added', async (lab) => {
  const page = await lab.open();
  await lab.drop(page, 'weir.yaml', 'upstreams: [{name: a, url: "http://h"}]\ntenants: [{name: search, weight: 3}, {name: night}]\n');
  const offer = page.getByRole('region', { name: 'Traffic for the configuration' });
  await offer.waitFor();
  assert.match(await offer.textContent(), /- \{name: search, rate: 1\/s/);
  assert.equal(await offer.evaluate((section) => section === document.activeElement), true, 'the focus is led to it');
  await lab.assertAccessible(page, 'the page with an offer');
  await lab.changed(page, () => offer.getByRole('button', { name: 'Add this traffic' }).click());
  await page.getByRole('heading', { name: 'Settings of each tenant' }).click();
  assert.equal(await lab.control(page, 'weight:search:text').inputValue(), '3');
  await lab.set(page, 'rate:night:text', '2/s');
  await lab.assertAccessible(page, "the tenants' settings");
});

pageClaim('taking it home: the configuration, the command and the link are what the page shows', async (lab) => {
  const page = await lab.open({ link: '#noisy' });
  await lab.set(page, 'scheduler', 'vtc');
  await lab.control(page, 'take').click();
  const text = (id) => page.locator(`[data-text="${id}"]`).inputValue();
  await page.waitForFunction(() => document.querySelector('[data-text="copy-yaml"]')?.value.includes('upstreams:'));
  assert.match(await text('copy-yaml'), /- \{name: backend, url: "?http:\/\/127\.0\.0\.1:8767"?, max_in_flight: 192\}/);
  assert.equal(await text('copy-command'), 'weir lab noisy --set scheduler=vtc');
  assert.match(await text('copy-link'), /\/lab\/#noisy&scheduler=vtc$/);
  assert.equal(await lab.control(page, 'download').getAttribute('href'), 'weir-lab.html');
  await lab.assertAccessible(page, 'the panel');
  /* Copying is refused to this visitor: the text is selected instead. */
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.reject(new Error('no')) } }));
  await lab.control(page, 'copy-command').click();
  await page.getByText('The text is selected').waitFor();
  assert.equal(await page.evaluate(() => getSelection().toString()), 'weir lab noisy --set scheduler=vtc');
});

for (const dark of [false, true])
  pageClaim(`the controls, opened, at 390 px, ${dark ? 'dark' : 'light'}: nothing sticks out and axe finds nothing`, async (lab) => {
    const page = await lab.open({ width: 390, height: 844, dark, link: '#failing' });
    await page.getByRole('button', { name: 'Change the setup' }).click();
    await page.locator('.side details.group').evaluateAll((groups) => groups.forEach((group) => (group.open = true)));
    await page.locator('.help').first().click();
    await lab.set(page, 'limit-kind', 'tokens');
    await lab.assertFits(page, 'the controls');
    await lab.assertAccessible(page, 'the controls');
    await lab.shot(page, `controls-390-${dark ? 'dark' : 'light'}`);
  });
