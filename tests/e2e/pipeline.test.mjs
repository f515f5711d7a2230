// deploy/ci: a command with weir between it and the API, and the job snippets of CI systems that run one.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { claim, until, weirBinary, within } from './support.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, '../..');
const script = path.join(root, 'deploy/ci/with-weir.sh');
const shells = ['sh', 'bash'].filter((shell) => spawnSync(shell, ['-c', 'true']).status === 0);

// ---- running it ----

// A job under way, in a folder of its own: { pid, folder, exit, out, err }.
class Job {
  constructor(rig, args, { env = {}, shell = 'sh', folder = rig.folder(), input } = {}) {
    this.folder = folder;
    const bare = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR ?? '/tmp', HOME: folder, WEIR: weirBinary };
    this.child = spawn(shell, args, { cwd: folder, env: { ...bare, ...env }, stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] });
    this.pid = this.child.pid;
    this.out = this.err = '';
    this.child.stdout.setEncoding('utf8').on('data', (text) => (this.out += text));
    this.child.stderr.setEncoding('utf8').on('data', (text) => (this.err += text));
    if (input !== undefined) this.child.stdin.end(input);
    this.exit = new Promise((resolve) => this.child.on('close', (code, signal) => resolve({ code, signal })));
  }

  report() {
    return JSON.parse(readFileSync(path.join(this.folder, 'weir-report.json'), 'utf8'));
  }

  // Ended with this status; nothing of it is left.
  async ended(code) {
    assert.deepEqual(await within(50_000, 'the job', this.exit), { code, signal: null }, this.err + this.out);
    const log = path.join(this.folder, 'weir-report.log');
    if (existsSync(log)) assert.doesNotMatch(readFileSync(log, 'utf8'), /Sanitizer|runtime error:|should be impossible/);
    return this;
  }
}

function job(rig, mock, flags, command, options = {}) {
  return new Job(rig, [script, '--upstream', `${mock.url}/v1`, ...flags, '--', ...command], options);
}

function isThere(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

const gone = (what, pid) => until(`${what} (${pid}) is gone`, () => !isThere(pid), 15_000);

// ---- the script ----

claim('fourteen jobs at once, of both SDKs and without retries, all succeed through weir where the API alone refuses some', async (rig) => {
  const mock = await rig.mock('--in-flight', '2', '--latency', '150ms');
  const barrier = rig.folder();
  const line = 'i=0; while [ $i -lt 14 ]; do i=$((i + 1)); echo $i; done |'
    + ' xargs -P 14 -I @@ sh -c \'if [ $((@@ % 2)) = 0 ]; then api=openai; else api=anthropic; fi;'
    + ' exec "$1" "$2" $api @@ "$3" 14 "$4"\' x "$1" "$2" "$3" "$4"; status=$?; echo "pid $WEIR_PID"; exit $status';
  const run = job(rig, mock, ['--max-in-flight', '2', '--rate', '20/s', '--burst', '5'],
    ['sh', '-c', line, 'x', process.execPath, path.join(here, 'pipeline_client.mjs'), barrier, mock.url]);
  await run.ended(0);
  const said = run.out.split('\n').filter((text) => text.startsWith('{')).map((text) => JSON.parse(text));
  assert.deepEqual(said.map((one) => one.weir), Array(14).fill(200), run.out);
  const refused = said.filter((one) => one.direct === 429).length;
  assert.ok(refused > 0, 'the limit is a real one: without weir some are refused');
  const report = run.report();
  assert.equal(report.state, 'drained');
  assert.deepEqual([report.requests.admitted, report.requests.answered, report.requests.refused], [14, { 200: 14 }, {}]);
  assert.equal(report.upstreams[0].answered_429.count, 0, 'nobody ran into the limit');
  assert.equal(report.tenants.length, 2);
  assert.ok(report.waiting.longest_queue >= 5 && report.waiting.noticeably >= 5, JSON.stringify(report.waiting));
  assert.match(run.err, /asked +14 tries: 14 answered, 0 refused\nanswered +14 x 200\nrefused +nothing\n/, 'the summary is in the log of the job');
  await gone('weir', Number(/^pid (\d+)$/m.exec(run.out)[1]));
});

claim('the status, the arguments and the input are the command\'s own, in every shell, and weir is gone', async (rig) => {
  const mock = await rig.mock('--plain');
  for (const shell of shells) {
    const failed = await job(rig, mock, [], ['sh', '-c', 'echo "$WEIR_PID"; exit 7'], { shell }).ended(7);
    await gone('weir', Number(failed.out));
    assert.equal(failed.report().state, 'drained');
    assert.match(failed.err, /nobody asked: have clients this gateway's address/);
    const words = await job(rig, mock, ['--rate', '5/s'], ['sh', '-c', 'for word; do printf "<%s>" "$word"; done; cat', 'x', 'a b', '--', '', '$HOME'],
      { shell, input: 'typed' }).ended(0);
    assert.equal(words.out, '<a b><--><><$HOME>typed');
    await job(rig, mock, [], ['/no/such/command'], { shell }).ended(127);
    const seen = await job(rig, mock, [], ['sh', '-c', 'echo $OPENAI_BASE_URL $ANTHROPIC_BASE_URL $NO_PROXY $WEIR_URL'],
      { shell, env: { NO_PROXY: 'inside.example', HTTP_PROXY: 'http://192.0.2.1:1' } }).ended(0);
    assert.match(seen.out, /^(http:\/\/127\.0\.0\.1:\d+)\/v1 \1 127\.0\.0\.1,localhost,inside\.example \1\n$/);
    assert.deepEqual(readdirSync(seen.folder).sort(), ['weir-report.json', 'weir-report.log', 'weir-report.txt']);
  }
});

claim('what cannot be started is said with 125, and the command does not run', async (rig) => {
  const mock = await rig.mock('--plain');
  const touch = ['sh', '-c', 'echo ran'];
  const rows = [
    [['--upstream', mock.url], {}, /no command/],
    [['--upstream', mock.url, '--'], {}, /no command/],
    [['--rate', '2/s', '--', ...touch], {}, /no API: say which with --upstream/],
    [['--upstream', mock.url, '--rat', '2/s', '--', ...touch], {}, /weir did not start \(status 2\):\n.*did you mean '--rate'/],
    [['--upstream', mock.url, '--', ...touch], { WEIR: '/no/weir' }, /no program '\/no\/weir'/],
    [['--upstream', mock.url, '--', ...touch], { WEIR_READY_S: 'soon' }, /whole seconds, not 'soon'/],
    [['--upstream', mock.url, '--', ...touch], { WEIR_READY_S: '0', WEIR: path.join(here, 'pipeline_slow.sh') }, /did not serve within 0 s/],
    [['--upstream', mock.url, '--', ...touch], { WEIR_REPORT: 'none/run.json' }, /none\/run/],
  ];
  for (const [args, env, said] of rows) {
    const run = await new Job(rig, [script, ...args], { env }).ended(125);
    assert.match(run.err, said);
    assert.equal(run.out, '');
  }
  const help = await new Job(rig, [script, '--help']).ended(0);
  assert.match(help.out, /^with-weir\.sh \[arguments[^]*after signal n\.\n$/);
});

claim('a weir that dies before the command is said, shown, and no success; a command\'s own failure stays', async (rig) => {
  const mock = await rig.mock('--plain');
  for (const [last, code] of [['exit 0', 125], ['exit 9', 9]]) {
    const run = await job(rig, mock, [], ['sh', '-c', `kill -9 $WEIR_PID; sleep 0.2; ${last}`]).ended(code);
    assert.match(run.err, /weir ended before the command did, with status 137/);
    assert.match(run.err, /began to serve: if it is over now, it was killed/);
  }
});

claim('signals reach the command, and weir ends with the script, even when that is killed', async (rig) => {
  const mock = await rig.mock('--plain');
  // It ends only a while after it was told, and weir still serves then.
  const line = 'trap \'sleep 0.4; kill -0 "$WEIR_PID" && echo told; exit 3\' TERM; echo "pid $WEIR_PID"; while :; do sleep 0.1; done';
  for (const shell of shells)
    for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130], ['SIGHUP', 129]].slice(0, shell === 'sh' ? 3 : 1)) {
      const run = job(rig, mock, [], ['sh', '-c', line], { shell });
      const pid = Number((await until('the command runs', () => /^pid (\d+)$/m.exec(run.out), 20_000))[1]);
      process.kill(run.pid, signal);
      await run.ended(code);
      assert.match(run.out, /told/);
      assert.equal(run.report().state, 'drained');
      await gone('weir', pid);
    }
  const run = job(rig, mock, [], ['sh', '-c', 'echo "pid $WEIR_PID $$"; exec sleep 60']);
  const [, pid, command] = await until('the command runs', () => /^pid (\d+) (\d+)$/m.exec(run.out), 20_000);
  process.kill(run.pid, 'SIGKILL');
  await gone('weir', Number(pid));
  process.kill(Number(command), 'SIGKILL');
  assert.equal(run.report().state, 'drained');
});

claim('--with-parent is about the process, not about the thread of it that started weir', async (rig) => {
  const mock = await rig.mock('--plain');
  // A thread starts weir, waits for it, and ends; a moment later weir is asked whether it drains.
  const line = `import subprocess, sys, threading, time, os, urllib.request
def start():
    global weir
    weir = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists("ready"):
        time.sleep(0.05)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(0.3)
values = dict(each.strip().split("=") for each in open("ready"))
print(urllib.request.urlopen(values["WEIR_ADMIN_URL"] + "/readyz").read().decode().strip(), weir.pid)
`;
  const folder = rig.folder();
  writeFileSync(path.join(folder, 'start.py'), line);
  const run = new Job(rig, ['start.py', weirBinary, 'serve', '--upstream', `${mock.url}/v1`, '--listen', '127.0.0.1:0',
    '--admin', '127.0.0.1:0', '--ledger', 'memory', '--with-parent', '--ready-file', 'ready'], { shell: 'python3', folder, env: { WEIR_STATE: folder } });
  await run.ended(0);
  const [, pid] = /^ready (\d+)\n$/.exec(run.out);
  await gone('weir', Number(pid));
});

claim('what is under way when the command ends has its time, and is cut after that', async (rig) => {
  const mock = await rig.mock('--plain', '--fault', 'stall=body');
  const line = 'curl -sN -o /dev/null -H "authorization: Bearer k" -H "content-type: application/json" '
    + '-d \'{"model":"mock","stream":true,"messages":[{"role":"user","content":"x"}]}\' $OPENAI_BASE_URL/chat/completions >/dev/null 2>&1 & '
    + 'until curl -s "$1" | grep -q \'"requests": *[1-9]\'; do sleep 0.1; done';
  const run = await job(rig, mock, [], ['sh', '-c', line, 'x', `${mock.url}/mock/stats`], { env: { WEIR_STOP_S: '1' } }).ended(0);
  assert.match(run.err, /still under way after 1 s: they are cut/);
  assert.equal(run.report().state, 'stopped');
  assert.equal(run.report().requests.under_way, 1);
});

// ---- the snippets ----

// Of each CI system: the shell scripts of a job in their order, and what it keeps of it.
const snippets = {
  'github-actions.yml': (text) => {
    const { steps, env } = parse(text).jobs.summarise;
    const kept = steps.filter((step) => step.uses?.startsWith('actions/upload-artifact@'));
    assert.ok(kept.every((step) => step.if === 'always()'));
    return { scripts: steps.filter((step) => step.run).map((step) => step.run), env, kept: kept.map((step) => step.with.path) };
  },
  'gitlab-ci.yml': (text) => {
    const { before_script: before, script: main, variables, artifacts } = parse(text).summarise;
    assert.equal(artifacts.when, 'always');
    return { scripts: [...before, ...main], env: variables, kept: artifacts.paths };
  },
  'buildkite.yml': (text) => {
    const { env, steps: [step] } = parse(text);
    return { scripts: [step.command.replaceAll('$$', '$')], env, kept: [step.artifact_paths] };
  },
  'circleci.yml': (text) => {
    const { steps, environment } = parse(text).jobs.summarise;
    const runs = steps.map((step) => step.run).filter(Boolean);
    assert.equal(runs.at(-1).when, 'always');
    return { scripts: runs.map((one) => one.command), env: environment, kept: [/weir-report\.\*/.exec(runs.at(-1).command)[0]] };
  },
  Jenkinsfile: (text) => ({
    // In ''' a backslash before a line's end joins the two.
    scripts: [...text.matchAll(/sh '''([^]*?)'''/g)].map((match) => match[1].replaceAll('\\\n', '')),
    env: { LLM_API: /LLM_API = '([^']*)'/.exec(text)[1] },
    kept: [/always \{\s*archiveArtifacts artifacts: '([^']*)'/.exec(text)[1]],
  }),
};

claim('every file in deploy/ci is a snippet that is tested, or the script', () => {
  assert.deepEqual(readdirSync(path.join(root, 'deploy/ci')).sort(), [...Object.keys(snippets), 'with-weir.sh'].sort());
});

for (const [name, read] of Object.entries(snippets))
  claim(`${name}: its scripts are whole, what they call is there, and the job does what it says`, async (rig) => {
    const { scripts, env, kept } = read(readFileSync(path.join(root, 'deploy/ci', name), 'utf8'));
    assert.match(env.LLM_API, /^https:/);
    for (const text of scripts) {
      const checked = spawnSync('sh', ['-n', '-c', text], { encoding: 'utf8' });
      assert.equal(checked.status, 0, checked.stderr);
      for (const [, file] of text.matchAll(/(?:^|[\s/])weir\/([\w./-]+)/g)) assert.ok(existsSync(path.join(root, file)), file);
    }
    assert.ok(scripts.some((text) => /weir\/tools\/bootstrap\.sh gateway\s+sh weir\/tools\/build\.sh build/.test(text)) || scripts.includes('sh weir/tools/build.sh build'));
    // The script that runs the job, from there on: in a folder like the repository of somebody who uses it.
    const main = scripts.find((text) => text.includes('with-weir.sh'));
    const folder = rig.folder();
    symlinkSync(root, path.join(folder, 'weir'));
    mkdirSync(path.join(folder, 'changes'));
    for (let i = 0; i < 14; i++) writeFileSync(path.join(folder, 'changes', `${i}.diff`), `change ${i}`);
    writeFileSync(path.join(folder, 'summarise'), '#!/bin/sh\nexec curl -sf -o "$1.txt" -H "authorization: Bearer k" -H "content-type: application/json"'
      + ' -d \'{"model":"mock","messages":[{"role":"user","content":"x"}]}\' "$OPENAI_BASE_URL/chat/completions"\n');
    chmodSync(path.join(folder, 'summarise'), 0o755);
    const mock = await rig.mock('--plain');
    const text = main.slice(main.search(/(?:exec )?\.\/weir\/deploy/)).replace('--rate 2/s', '--rate 20/s');
    assert.notEqual(text.search('--rate 20/s'), -1);
    const run = await new Job(rig, ['-ec', text], { folder, env: { LLM_API: `${mock.url}/v1` } }).ended(0);
    assert.deepEqual(run.report().requests.answered, { 200: 14 });
    assert.equal(readdirSync(path.join(folder, 'changes')).filter((one) => one.endsWith('.txt')).length, 14);
    // What it keeps is what there is.
    const pattern = new RegExp(`^(?:${kept.join('|').replaceAll('.', '\\.').replaceAll('*', '.*')})$`);
    for (const file of ['weir-report.json', 'weir-report.txt', 'weir-report.log']) {
      assert.match(file, pattern);
      assert.ok(existsSync(path.join(folder, file)));
    }
  });

// ---- the document ----

claim('docs/egress.md: its links, flags, codes and the members of the report are those there are', async (rig) => {
  const text = readFileSync(path.join(root, 'docs/egress.md'), 'utf8');
  for (const [, link] of text.matchAll(/\]\(([^)#]+)\)/g)) assert.ok(existsSync(path.join(root, 'docs', link)), link);
  const flags = ['serve', 'mock', 'lab'].map((command) => rig.run([command, '--help']).stdout).join();
  for (const [flag] of text.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)) assert.ok(flags.includes(flag), flag);
  const refusals = readFileSync(path.join(root, 'docs/refusals.md'), 'utf8');
  for (const [, status, own] of text.matchAll(/^\| (\d{3}) \| (.*?) \| .*? \| .*? \|$/gm))
    for (const [, code] of own.matchAll(/`([a-z]+_[a-z_]+|draining)`(?=:)/g))
      assert.ok(refusals.includes(`| ${status} | \`${code}\` |`), `${status} ${code}`);
  const mock = await rig.mock('--plain');
  const report = (await job(rig, mock, [], ['true']).ended(0)).report();
  const rows = [...text.slice(text.indexOf('## The report')).matchAll(/^\| (`.*?) \| (.*) \|$/gm)];
  const described = rows.flatMap(([, members]) => [...members.matchAll(/`(\w+)`/g)].map((match) => match[1]));
  assert.deepEqual([...described, 'state', 'tenants_left_out'].sort(), Object.keys(report).sort());
  for (const [, members, meaning] of rows) {
    const value = report[/`(\w+)`/.exec(members)[1]];
    const shown = Array.isArray(value) ? value[0] ?? {} : value;
    for (const name of shown && typeof shown === 'object' ? Object.keys(shown) : [])
      if (!['name', 'url', 'overrun'].includes(name)) assert.ok(meaning.includes(name), `${members}: ${name}`);
  }
});
