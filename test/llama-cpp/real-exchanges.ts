import {
  type ModelServer,
  modelServerKey,
  modelServerModel,
} from '../kit/model-server/model-server.ts'
import {
  askForProduct as messages,
  exchange,
  multiplyTools as tools,
  type RealExchange,
  streamed,
  tooManyWords,
} from './real-exchange.ts'

/** Requests by what is special about them. All of them are made of a server whose model is loaded, but for the one that loads. */
const requests = {
  'a text': { messages, max_tokens: 8 },
  'a streamed text': { messages, max_tokens: 8, ...streamed },
  'a tool call': { messages, tools },
  'a streamed tool call': { messages, tools, ...streamed },
  'a text with logprobs': { messages, max_tokens: 2, logprobs: true, top_logprobs: 1 },
  'a streamed text with logprobs': { messages, max_tokens: 2, logprobs: true, ...streamed },
  'a full context': { messages: tooManyWords },
  'a streamed full context': { messages: tooManyWords, ...streamed },
  'a wrong key': { messages },
  'a model that is loading': { messages },
} as const

export type RealRequest = keyof typeof requests

export async function answerWhileLoading(server: ModelServer): Promise<RealExchange> {
  return ask(server, requests['a model that is loading'])
}

/**
 * Makes all requests of a server.
 *
 * @param loading - what it answered while its model was loaded
 */
export async function realExchanges(
  server: ModelServer,
  loading: RealExchange,
): Promise<Record<RealRequest, RealExchange>> {
  const answers: [string, RealExchange][] = []
  for (const name of Object.keys(requests) as RealRequest[]) {
    const key = name === 'a wrong key' ? 'wrong' : modelServerKey
    const isLoading = name === 'a model that is loading'
    answers.push([name, isLoading ? loading : await ask(server, requests[name], key)])
  }
  return Object.fromEntries(answers) as Record<RealRequest, RealExchange>
}

async function ask(
  { url }: ModelServer,
  request: object,
  key = modelServerKey,
): Promise<RealExchange> {
  return exchange({ url, key, model: modelServerModel }, request)
}
