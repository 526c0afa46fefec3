import { fail, ok, warn, type CheckFinding } from '../finding.ts'
import { textOf, type Endpoint } from './asked-endpoint.ts'
import { drawDeviation } from './drawn-tokens.ts'

const letters = { role: 'user', content: 'Write twenty random letters.' }

/** Whether an answer at temperature 0 is always the same, and answers at 1.5 are not. */
export async function temperatureFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const ask = async (temperature: number): Promise<string> => {
    const answer = await endpoint.answer({ messages: [letters], temperature, max_tokens: 24 })
    return textOf(answer.choices[0]?.message)
  }
  const cold = new Set([await ask(0), await ask(0)])
  const hot = new Set(await Promise.all([1.5, 1.5, 1.5, 1.5].map(ask)))
  if (hot.size === 1) {
    return fail(
      'temperature',
      'Four answers at temperature 1.5 are the same.',
      'The endpoint ignores the temperature of the request, or caches answers: attempts at a row would not differ, and nothing can be learned.',
    )
  }
  if (cold.size > 1) {
    return warn(
      'temperature',
      'Two answers at temperature 0 differ.',
      'The endpoint ignores the temperature of the request, or its arithmetic depends on the other requests of a batch.',
    )
  }
  return ok('temperature', 'is that of the request')
}

/** Its answers vary, which shows most. */
const invention = { role: 'user', content: 'Invent a sentence that nobody has ever said.' }

/** Beyond this many standard deviations it is no chance: once in a million. */
const mostDeviation = 5

/** Whether tokens are drawn as their logprobs say. */
export async function samplingFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const body = { messages: [invention], temperature: 1, max_tokens: 64, top_logprobs: 20 }
  const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(() => endpoint.answer(body)))
  const drawn = answers.flatMap(({ choices }) => choices[0]?.logprobs?.content ?? [])
  const deviation = drawDeviation(drawn)
  if (deviation === undefined) {
    return warn('sampling', 'Not checked: the answers have too few tokens with top_logprobs.')
  }
  if (Math.abs(deviation) <= mostDeviation) {
    return ok('sampling', 'tokens are drawn as their logprobs say')
  }
  return warn(
    'sampling',
    `At temperature 1 the server draws ${deviation > 0 ? 'likely' : 'unlikely'} tokens more often than their logprobs say.`,
    'It has defaults of its own for what requests leave out, such as top_k, top_p, min_p or penalties. vLLM takes them from the model’s folder unless it is started with --generation-config vllm; llama-server has none with --top-k 0 --top-p 1 --min-p 0.',
  )
}

/** Whether logprobs are those of the distribution that was sampled from, also at other temperatures than 1. */
export async function scaleFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const highest = async (temperature: number): Promise<number | undefined> => {
    // Servers may list the token that was drawn before the most likely one.
    const body = { messages: [letters], temperature, max_tokens: 1, top_logprobs: 5 }
    const answer = await endpoint.answer(body)
    const listed = answer.choices[0]?.logprobs?.content?.[0]?.top_logprobs ?? []
    return listed.length === 0 ? undefined : Math.max(...listed.map(({ logprob }) => logprob))
  }
  const [warm, cool] = [await highest(1), await highest(0.5)]
  if (warm === undefined || cool === undefined) {
    return warn('logprob scale', 'Not checked: the answer has no top_logprobs.')
  }
  if (Math.abs(warm - cool) > 1e-3 || warm > -1e-2) {
    return ok('logprob scale', 'logprobs are those of the sampled distribution')
  }
  return warn(
    'logprob scale',
    'Logprobs are those of temperature 1, whatever the temperature of the request.',
    'Train at temperature 1, or start vLLM with --logprobs-mode processed_logprobs.',
  )
}
