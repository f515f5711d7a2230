// One job of a pipeline, for pipeline.test.mjs: a stock SDK that finds the API through its environment.
//
//   node pipeline_client.mjs openai|anthropic NUMBER BARRIER COUNT [DIRECT]
//
// Asks only when COUNT of these are there, so that all ask at once; without retries. With DIRECT, a URL, it asks
// there first. Prints {"direct": STATUS, "weir": STATUS}; ends with 1 unless the second was answered.
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';

const [api, number, barrier, count, direct] = process.argv.slice(2);
const messages = [{ role: 'user', content: `change ${number}` }];

async function meet(name) {
  writeFileSync(path.join(barrier, `${name}.${number}`), '');
  const end = Date.now() + 40_000;
  while (readdirSync(barrier).filter((one) => one.startsWith(name)).length < Number(count)) {
    if (Date.now() > end) throw new Error(`the other jobs did not come: ${name}`);
    await setTimeout(5);
  }
}

async function ask(baseURL) {
  const options = { apiKey: `sk-job-${number % 2}`, maxRetries: 0, ...baseURL };
  try {
    if (api === 'openai') await new OpenAI(options).chat.completions.create({ model: 'mock', messages });
    else await new Anthropic(options).messages.create({ model: 'mock', messages, max_tokens: 8 });
    return 200;
  } catch (error) {
    return error.status ?? error.message;
  }
}

const said = {};
if (direct) {
  await meet('direct');
  said.direct = await ask({ baseURL: api === 'openai' ? `${direct}/v1` : direct });
}
await meet('weir');
said.weir = await ask({});
console.log(JSON.stringify(said));
process.exitCode = said.weir === 200 ? 0 : 1;
