import path from 'node:path'

import {
  askForProduct as messages,
  exchange,
  exchangeAt,
  multiplyTools as tools,
  type RealExchange,
  streamed,
  tooManyWords,
} from '../llama-cpp/real-exchange.ts'
import { smallAdapter, startVllm, vllmPackages } from './vllm-server.ts'

const key = 'key'
const template = path.resolve(import.meta.dirname, '../kit/model-server/chat-template.jinja')
const options =
  '--generation-config vllm --logprobs-mode processed_logprobs --enable-auto-tool-choice --tool-call-parser hermes --enable-lora --max-lora-rank 8'

const greedy = { temperature: 0, max_tokens: 48 }
const training = { logprobs: true, return_token_ids: true }

/** Requests by what is special about them. */
const requests = {
  'a text': { ...greedy, messages, max_tokens: 8 },
  'a streamed text': { ...greedy, messages, max_tokens: 8, ...streamed },
  'a tool call': { ...greedy, messages, tools },
  'a streamed tool call': { ...greedy, messages, tools, ...streamed },
  'a forced tool call': { ...greedy, messages, tools, tool_choice: 'required' },
  'a text with ids': { ...greedy, messages, max_tokens: 2, ...training },
  'a streamed text with ids': { ...greedy, messages, max_tokens: 2, ...training, ...streamed },
  'a streamed tool call with ids': { ...greedy, messages, tools, ...training, ...streamed },
  'a full context': { messages: tooManyWords },
  'a streamed full context': { messages: tooManyWords, ...streamed },
  'a wrong key': { messages },
  'an unknown model': { messages, model: 'another' },
  'a temperature above 2': { messages, temperature: 2.5 },
} as const

type VllmRequest = keyof typeof requests

/** A request of the learner's sampler, and the answer. */
interface SamplerExchange extends RealExchange {
  readonly route: string
  readonly request: object
}

/** Asks for what the learner asks of the vLLM that samples for it, in the order in which it asks. */
async function samplerAnswers(
  server: string,
  adapter: string,
): Promise<Readonly<Record<string, SamplerExchange>>> {
  const ask = async (route: string, request: object): Promise<SamplerExchange> => {
    const answer = await exchangeAt(new URL(route, server).href, key, request)
    return { route, request, ...answer }
  }
  const load = async (lora_name: string, lora_path: string): Promise<SamplerExchange> =>
    ask('/v1/load_lora_adapter', { lora_name, lora_path })
  const complete = async (more: object): Promise<SamplerExchange> =>
    ask('/v1/completions', { ...completion, ...more })
  const name = completion.model
  const loaded = await load(name, adapter)
  const cut = await complete({})
  const { choices } = JSON.parse(cut.body) as { choices: [{ token_ids: number[] }] }
  return {
    'an adapter that is loaded': loaded,
    'an adapter that is missing': await load('policy-1-2', `${adapter}-missing`),
    'a completion that is cut': cut,
    // The same seed draws the same token, which ends the answer now.
    'a completion that stops': await complete({
      stop_token_ids: [...completion.stop_token_ids, choices[0].token_ids[0]],
    }),
    'a completion at a temperature above 2': await complete({ temperature: 2.5 }),
    'a completion of a missing adapter': await complete({ model: 'policy-1-2' }),
    'an adapter that is unloaded': await ask('/v1/unload_lora_adapter', { lora_name: name }),
  }
}

const completion = {
  model: 'policy-0-1',
  prompt: [1, 2683, 198, 28_120],
  max_tokens: 2,
  temperature: 1,
  seed: 7,
  stop: [],
  stop_token_ids: [2],
  skip_special_tokens: false,
  logprobs: 0,
  return_token_ids: true,
}

/** What a vLLM answered, and what it was. */
export interface VllmAnswers {
  readonly version: string
  /** The options that answers depend on. */
  readonly options: string
  readonly exchanges: Readonly<Record<VllmRequest, RealExchange>>
  /** Answers to the learner's sampler. */
  readonly sampler: Readonly<Record<string, SamplerExchange>>
}

/** Starts a vLLM with a model, makes all requests of it, and ends it. */
export async function vllmAnswers(model: string): Promise<VllmAnswers> {
  const given = ['--chat-template', template, '--api-key', key]
  const adapter = await smallAdapter(model)
  const server = await startVllm(model, [...options.split(' '), ...given])
  try {
    const answers: [string, RealExchange][] = []
    for (const name of Object.keys(requests) as VllmRequest[]) {
      const asked = {
        url: server.url,
        model: 'policy',
        key: name === 'a wrong key' ? 'wrong' : key,
      }
      answers.push([name, await exchange(asked, requests[name])])
    }
    const exchanges = Object.fromEntries(answers) as Record<VllmRequest, RealExchange>
    const sampler = await samplerAnswers(server.url, adapter)
    return { version: vllmPackages(), options, exchanges, sampler }
  } finally {
    await server.kill()
  }
}
