// Missions on the lab page: one is won by its controls alone, and what was won stays; what would spoil a mission
// or its progress does not.
import assert from 'node:assert/strict';
import { readMissions } from '../../web/missions/read.mjs';
import { pageClaim } from './lab_page_support.mjs';

const KEY = 'weir-lab-missions';
const panel = (page, id) => page.locator(`[data-mission="${id}"]`);
const inList = (page, id) => page.locator(`[data-mission-choose="${id}"]`);
const news = (page) => page.locator('[data-mission-news]');
const kept = (page) => page.evaluate((key) => JSON.parse(localStorage.getItem(key) ?? 'null'), KEY);

async function openList(lab, page) {
  await lab.control(page, 'missions').click();
  await inList(page, 'request-limits').waitFor();
}

// The controls' own "?" are looked at with the controls.
async function assertAccessible(lab, page, what) {
  const found = (await lab.axe(page)).filter((line) => !line.startsWith('target-size: button[aria-controls='));
  assert.deepEqual(found, [], `axe finds nothing on ${what}`);
}

// Begins a mission that is open, from the list.
async function begin(lab, page, id) {
  await openList(lab, page);
  await inList(page, id).click();
  await panel(page, id).locator('.m-goals').waitFor();
  await lab.settled(page);
}

// Stars of the run that is shown.
async function stars(lab, page, id) {
  await lab.settled(page);
  return Number(await panel(page, id).getAttribute('data-stars'));
}

// The first mission, by hand: tokens, three quarters up, a bucket of some requests.
async function winFirst(lab, page) {
  await lab.changed(page, () => lab.control(page, 'limit-kind').first().locator('label:has(input[value="tokens"])').click());
  assert.equal(await stars(lab, page, 'request-limits'), 0, 'the kind alone does not win');
  await lab.changed(page, () => slide(lab, page, 'limit-rate', 0.85));
  assert.equal(await stars(lab, page, 'request-limits'), 0, 'in a bucket of nine thousand tokens no request of the agent fits');
  await lab.changed(page, () => slide(lab, page, 'limit-bucket', 0.61));
  assert.equal(await stars(lab, page, 'request-limits'), 3);
}

// A slider to a part of its way.
async function slide(lab, page, id, part) {
  const range = page.locator(`input[type="range"][data-control="${id}"], [data-control="${id}"] input[type="range"]`).first();
  await range.fill(String(Math.round(Number(await range.getAttribute('max')) * part)));
}

pageClaim('a mission is won by its controls alone, by keyboard from the list on; its stars outlast a reload', async (lab) => {
  const page = await lab.open();
  await lab.control(page, 'missions').focus();
  await page.keyboard.press('Enter');
  await inList(page, 'request-limits').waitFor();
  await assertAccessible(lab, page, 'the list of missions');
  await lab.shot(page, 'missions-list', { fullPage: false });
  const reach = async (id) => {
    for (let i = 0; i < 20; i++) {
      if (await inList(page, id).evaluate((one) => one === document.activeElement)) return;
      await page.keyboard.press('Tab');
    }
    assert.fail(`${id} is not reached by the keyboard`);
  };
  await reach('bucket-too-big');
  assert.equal(await inList(page, 'bucket-too-big').getAttribute('aria-disabled'), 'true');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('[data-mission]').count(), 0, 'one that is locked does not begin');
  await page.keyboard.press('Shift+Tab');
  await reach('request-limits');
  await page.keyboard.press('Enter');
  await panel(page, 'request-limits').locator('.m-goals').waitFor();
  assert.equal(await page.locator('dialog[open]').count(), 0, 'the list closes');
  assert.equal(await stars(lab, page, 'request-limits'), 0);
  assert.equal(await panel(page, 'request-limits').locator('.m-debrief').count(), 0, 'the debrief waits for the win');
  await assertAccessible(lab, page, 'a mission at its start');
  await lab.shot(page, 'mission-start');

  await winFirst(lab, page);
  assert.match(await news(page).textContent(), /Mission won: .*3 of 3 stars.*next one is open/);
  await panel(page, 'request-limits').locator('.m-debrief').waitFor();
  await assertAccessible(lab, page, 'a mission that is won');
  await lab.shot(page, 'mission-won');
  assert.deepEqual((await kept(page)).stars, { 'request-limits': 3 });

  await page.reload();
  await lab.settled(page);
  assert.equal(await stars(lab, page, 'request-limits'), 3, 'the link leads back into the mission');
  await openList(lab, page);
  assert.match(await inList(page, 'request-limits').locator('[role="img"]').getAttribute('aria-label'), /3 of 3/);
  assert.equal(await inList(page, 'bucket-too-big').getAttribute('aria-disabled'), 'false', 'the next is open');
  assert.equal(await inList(page, 'bucket-too-small').getAttribute('aria-disabled'), 'true', 'the one after is not');
  await page.keyboard.press('Escape');
  await page.locator('[data-mission-next="bucket-too-big"]').click();
  await panel(page, 'bucket-too-big').waitFor();
  assert.equal(await stars(lab, page, 'bucket-too-big'), 0);
});

pageClaim('fewer stars than were earned take nothing away, and undo leads back', async (lab) => {
  const page = await lab.open();
  await begin(lab, page, 'request-limits');
  await winFirst(lab, page);
  await lab.changed(page, () => slide(lab, page, 'limit-rate', 0.3));
  assert.ok((await stars(lab, page, 'request-limits')) < 3);
  assert.deepEqual((await kept(page)).stars, { 'request-limits': 3 });
  await lab.changed(page, () => lab.control(page, 'undo').click());
  assert.equal(await stars(lab, page, 'request-limits'), 3);
});

pageClaim('what the mission gives is not for changing, and a solution that is shown earns nothing', async (lab) => {
  const page = await lab.open();
  const [mission] = readMissions();
  const sets = [...mission.solution, 'traffic.agent.rate=3.9/s'];
  await page.goto('about:blank');
  await page.goto(`${await lab.address()}#mission:${mission.id}${sets.map((set) => `&${encodeURI(set)}`).join('')}`);
  await lab.settled(page);
  await panel(page, 'request-limits').locator('.m-goals').waitFor();
  assert.equal(await panel(page, 'request-limits').locator('.m-open').count(), 0, 'every figure is met');
  assert.equal(await stars(lab, page, 'request-limits'), 0, 'and no star is earned');
  assert.match(await panel(page, 'request-limits').locator('.m-rule').textContent(), /traffic\.agent\.rate/);
  await panel(page, 'request-limits').getByRole('button', { name: 'Begin again' }).click();
  await panel(page, 'request-limits').locator('.m-rule').waitFor({ state: 'detached' });
  await panel(page, 'request-limits').getByRole('button', { name: 'Show the solution' }).click();
  await lab.changed(page, () => panel(page, 'request-limits').getByRole('button', { name: /Set them/ }).click());
  assert.equal(await stars(lab, page, 'request-limits'), 3);
  assert.match(await panel(page, 'request-limits').locator('.m-rule').textContent(), /not counted/);
  assert.deepEqual(await kept(page), { stars: {}, seen: ['request-limits'], isAllOpen: false });
  await openList(lab, page);
  assert.equal(await inList(page, 'bucket-too-big').getAttribute('aria-disabled'), 'false', 'who looked goes on');
});

pageClaim('without storage a mission is won all the same; a bad value in it loses nothing', async (lab) => {
  const closed = await lab.context();
  await closed.addInitScript(() => {
    Object.defineProperty(window, 'localStorage', {
      get() {
        throw new DOMException('denied', 'SecurityError');
      },
    });
  });
  const page = await lab.open({ context: closed });
  await begin(lab, page, 'request-limits');
  await winFirst(lab, page);
  await openList(lab, page);
  assert.equal(await inList(page, 'bucket-too-big').getAttribute('aria-disabled'), 'false');

  const broken = await lab.context();
  const second = await lab.open({ context: broken });
  await second.evaluate((key) => localStorage.setItem(key, '{"stars": {"request-limits": 2, "bucket-too-big": "x"}, "seen": 5}'), KEY);
  await second.reload();
  await lab.settled(second);
  await openList(lab, second);
  assert.match(await inList(second, 'request-limits').locator('[role="img"]').getAttribute('aria-label'), /2 of 3/);
  await second.getByRole('button', { name: /Unlock all/ }).click();
  assert.equal(await second.locator('[data-mission-choose][aria-disabled="true"]').count(), 0, 'a teacher opens all');
  assert.deepEqual(await kept(second), { stars: { 'request-limits': 2 }, seen: [], isAllOpen: true });
});

pageClaim('every mission opens by its link with its controls there, fits a phone, and is won by its solution', async (lab) => {
  for (const [dark, width, missions] of [[false, 390, readMissions()], [true, 1280, readMissions().slice(-1)]]) {
    const page = await lab.open({ dark, width, height: 844, link: `#mission:${missions[0].id}` });
    for (const mission of missions) {
      if (mission !== missions[0]) await lab.changed(page, () => page.evaluate((id) => void (location.hash = `mission:${id}`), mission.id));
      await panel(page, mission.id).locator('.m-goals').waitFor();
      assert.equal(await stars(lab, page, mission.id), 0, `${mission.id} is not won at its start`);
      for (const id of mission.controls.filter((each) => !each.startsWith('cooldown:')))
        assert.ok((await lab.control(page, id).count()) > 0, `${mission.id} shows ${id}`);
      await panel(page, mission.id).getByText('Hint', { exact: true }).click();
      await panel(page, mission.id).getByRole('button', { name: 'Show the solution' }).click();
      await lab.assertFits(page, mission.id);
      await lab.changed(page, () => panel(page, mission.id).getByRole('button', { name: /Set them/ }).click());
      assert.equal(await stars(lab, page, mission.id), 3, `${mission.id} is won by its solution in the browser too`);
      await lab.shot(page, `mission-${mission.id}-${width}`);
    }
    await assertAccessible(lab, page, 'a mission with its solution');
  }
});
