import path from 'node:path'

import {
  askForProduct as messages,
  exchange,
  multiplyTools as tools,
  type RealExchange,
  streamed,
  tooManyWords,
} from '../llama-cpp/real-exchange.ts'
import { startVllm, vllmPackages } from './vllm-server.ts'

const key = 'key'
const template = path.resolve(import.meta.dirname, '../kit/model-server/chat-template.jinja')
const options =
  '--generation-config vllm --logprobs-mode processed_logprobs --enable-auto-tool-choice --tool-call-parser hermes'

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

/** What a vLLM answered, and what it was. */
export interface VllmAnswers {
  readonly version: string
  /** The options that answers depend on. */
  readonly options: string
  readonly exchanges: Readonly<Record<VllmRequest, RealExchange>>
}

/** Starts a vLLM with a model, makes all requests of it, and ends it. */
export async function vllmAnswers(model: string): Promise<VllmAnswers> {
  const given = ['--chat-template', template, '--api-key', key]
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
    return { version: vllmPackages(), options, exchanges }
  } finally {
    await server.kill()
  }
}
