import { describe, expect, it } from 'vitest'

import { drawLetters, randomOf } from './drawn-letters.ts'
import { run } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

/** What an endpoint for trainers does; a test takes one thing away. */
interface Habits {
  readonly ids: boolean
  readonly logprobs: boolean
  readonly parsesTools: boolean
  readonly callsTool: boolean
  readonly keepsPrefixes: boolean
  readonly heedsTemperature: boolean
  readonly scalesLogprobs: boolean
  readonly drawsAsStated: boolean
}
const good: Habits = {
  ids: true,
  logprobs: true,
  parsesTools: true,
  callsTool: true,
  keepsPrefixes: true,
  heedsTemperature: true,
  scalesLogprobs: true,
  drawsAsStated: true,
}

interface Message {
  readonly role: string
  readonly content?: string | null
  readonly tool_calls?: unknown
}

/** Tokens are the characters of the conversation. */
function idsOf(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0)
}

const called = '<tool_call>{"name": "read_note"}</tool_call>'

function answerTo(body: Record<string, unknown>, habits: Habits, n: number): object {
  const messages = body['messages'] as readonly Message[]
  const temperature = Number(body['temperature'])
  const said = (message: Message): string => (message.tool_calls ? called : (message.content ?? ''))
  const turns = messages.map((message) => `\n${message.role}: ${said(message)}`)
  if (!habits.keepsPrefixes && messages.length > 1) turns[0] = '\nuser: (earlier turns)'
  const isQuestion = messages.at(-1)?.content?.includes('read_note') ?? false
  const isVaried = habits.heedsTemperature && temperature > 0
  const text = isQuestion && habits.callsTool ? called : `letters ${isVaried ? n : 0}`
  const isDrawn = body['top_logprobs'] === 20
  const drawn = drawLetters(64, habits.drawsAsStated ? {} : { temperature: 0.6 }, randomOf(n))
  const ids = isDrawn ? drawn.map((_, at) => at) : idsOf(text)
  const isParsed = text === called && habits.parsesTools
  const scale = habits.scalesLogprobs ? Math.max(temperature, 0.1) : 1
  return {
    ...(habits.ids && { prompt_token_ids: idsOf(`${turns.join('')}\nassistant: `) }),
    choices: [
      {
        message: isParsed
          ? {
              role: 'assistant',
              content: null,
              tool_calls: [
                { id: 'c1', type: 'function', function: { name: 'read_note', arguments: '{}' } },
              ],
            }
          : { role: 'assistant', content: text },
        ...(habits.ids && { token_ids: ids }),
        ...(habits.logprobs && {
          logprobs: {
            content: isDrawn
              ? drawn
              : ids.map(() => ({
                  logprob: -1,
                  // As in vLLM, the token that was drawn stands before the most likely one.
                  top_logprobs: [
                    { token: 'b', logprob: -9 - (n % 2) },
                    { token: 'a', logprob: -1 / scale },
                  ],
                })),
          },
        }),
        finish_reason: 'stop',
      },
    ],
  }
}

async function examine(habits: Partial<Habits>): Promise<{ code: number | null; found: string }> {
  let n = 0
  const { url } = await endpoint(({ body }, response) => {
    n += 1
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(answerTo(body, { ...good, ...habits }, n)))
  })
  const flags = ['--base-url', `${url}/v1`, '--model', 'policy']
  const { code, stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
  return { code, found: stdout }
}

describe('osmosis doctor --base-url', () => {
  it('finds nothing wrong with an endpoint that gives a trainer what it needs', async () => {
    const { code, found } = await examine({})
    expect(found.trimEnd().split('\n')).toEqual([
      'ok    endpoint       policy answered',
      'ok    token ids      82 of the prompt, 44 of the answer',
      'ok    logprobs       one for each token of the answer',
      'ok    tool calls     are parsed',
      'ok    prefixes       the second turn continues the tokens of the first',
      'ok    temperature    is that of the request',
      'ok    sampling       tokens are drawn as their logprobs say',
      'ok    logprob scale  logprobs are those of the sampled distribution',
    ])
    expect(code).toBe(0)
  })

  it.each([
    ['ids', 1, 'fail  token ids', 'vLLM 0.10.2 or newer'],
    ['logprobs', 1, 'fail  logprobs', 'logprobs: true'],
    ['parsesTools', 1, 'fail  tool calls', '--enable-auto-tool-choice'],
    ['callsTool', 0, 'warn  tool calls', 'Try a larger model'],
    [
      'keepsPrefixes',
      0,
      'warn  prefixes',
      'differs from the first turn at token 7 of 126, within the prompt',
    ],
    ['heedsTemperature', 1, 'fail  temperature', 'ignores the temperature'],
    ['scalesLogprobs', 0, 'warn  logprob scale', '--logprobs-mode processed_logprobs'],
    ['drawsAsStated', 0, 'warn  sampling', '--generation-config vllm'],
  ] as const)('without %s, says what to change', async (habit, code, line, advice) => {
    const examined = await examine({ [habit]: false })
    expect(examined.found).toContain(line)
    expect(examined.found).toContain(advice)
    expect(examined.code).toBe(code)
  })

  it('reports what it found before a call fails', async () => {
    const { url } = await endpoint(({ body }, response) => {
      if (body['temperature'] === 0) refuse(response, 400, 'temperature must be above 0')
      else {
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify(answerTo(body, good, 1)))
      }
    })
    const flags = ['--base-url', `${url}/v1`, '--model', 'policy']
    const { code, stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
    expect(stdout).toContain('ok    prefixes')
    expect(stdout).toContain('The endpoint answered 400')
    expect(code).toBe(1)
  })

  it.each([
    [401, 'no such key', '--api-key-env names the variable that holds one'],
    [403, 'no such key', '--api-key-env names the variable that holds one'],
    [404, 'The model policy does not exist.', '/models lists them'],
    [429, 'too many requests', 'loading, busy or broken'],
    [503, 'Loading model', 'loading, busy or broken'],
    [400, 'Something else', 'read what it says'],
  ])('an endpoint that always answers %i (%s): %s', async (status, words, advice) => {
    const { url } = await endpoint((_, response) => refuse(response, status, words))
    const flags = ['--base-url', `${url}/v1`, '--model', 'policy']
    const { code, stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
    expect(stdout).toContain(`fail  endpoint  The endpoint answered ${status}`)
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(words)
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(advice)
    expect(code).toBe(1)
  })

  it('goes on without tools where the endpoint refuses them', async () => {
    let n = 0
    const { url } = await endpoint(({ body }, response) => {
      n += 1
      if (body['tools'] !== undefined) {
        refuse(response, 400, '"auto" tool choice requires --enable-auto-tool-choice')
      } else {
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify(answerTo(body, good, n)))
      }
    })
    const flags = ['--base-url', `${url}/v1`, '--model', 'policy']
    const { code, stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
    const levels = stdout.match(/^(?:ok|warn|fail) +[\w ]+?(?= {2})/gm)
    expect(levels).toEqual([
      'ok    endpoint',
      'fail  tool calls',
      'ok    token ids',
      'ok    logprobs',
      'ok    prefixes',
      'ok    temperature',
      'ok    sampling',
      'ok    logprob scale',
    ])
    expect(stdout).toContain('--tool-call-parser')
    expect(code).toBe(1)
  })

  it.each(['reasoning_content', 'reasoning'])(
    'counts thinking in %s as what the policy wrote',
    async (field) => {
      let n = 0
      const { url } = await endpoint(({ body }, response) => {
        n += 1
        const answer = answerTo(body, good, n) as { choices: { message: Message }[] }
        for (const choice of answer.choices) {
          const { content, ...message } = choice.message
          if (content) choice.message = { ...message, content: null, [field]: content }
        }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
      })
      const flags = ['--base-url', `${url}/v1`, '--model', 'policy']
      const { stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
      expect(stdout).toContain('ok    temperature    is that of the request')
    },
  )

  it('reports an endpoint that refuses, and one that is not there', async () => {
    const { url } = await endpoint((_, response) => refuse(response, 404, 'no such model'))
    const refused = await run(
      ['doctor', '--base-url', `${url}/v1`, '--model', 'policy'],
      {},
      temporaryFolder(),
    )
    expect(refused.stdout).toContain('fail  endpoint  The endpoint answered 404')
    expect(refused.code).toBe(1)
    const missing = await run(
      ['doctor', '--base-url', 'http://127.0.0.1:9/v1', '--model', 'policy'],
      {},
      temporaryFolder(),
    )
    expect(missing.stdout).toContain('cannot be reached')
    expect(missing.code).toBe(1)
  })
})
