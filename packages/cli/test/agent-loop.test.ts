import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run as osmosis, start, useProcesses } from './in-process.ts'
import { endpoint, noRetries, refuse, say } from './model-endpoint.ts'
import { startOsmosis, temporaryFolder, workspace } from './osmosis.ts'

inWorkspace()

const adder = 'rollouts/agent-loops/adder.ts:agentLoop'
const data = ['-d', 'data/sums.jsonl']
const policy = ['--policy', 'policies/adding.ts']

async function fails(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await osmosis(args)
  expect([code, stdout]).toEqual([2, ''])
  return stderr
}

describe('osmosis validate -m', () => {
  const validated = async (spec: string): Promise<{ code: number | null; findings: string }> => {
    const { code, stdout } = await osmosis(['validate', '-m', spec])
    return { code, findings: stdout.replace(`${spec}\n`, '').replaceAll(/\s+/g, ' ') }
  }

  it('finds nothing wrong with a good loop, an instance, a class or the only one of a file', async () => {
    for (const spec of [
      adder,
      'rollouts/agent-loops/adder.ts:Adder',
      'rollouts/agent-loops/adder.ts',
    ]) {
      const { code, findings } = await validated(spec)
      expect(code).toBe(0)
      expect(findings).toMatch(/^ok entrypoint exports the agent loop 'adder' with 1 tool warn/)
    }
  })

  it('takes the name of the export to begin at the last colon', async () => {
    const folder = path.join(temporaryFolder(), 'a:b')
    symlinkSync(path.join(workspace, 'rollouts/agent-loops'), folder)
    expect(await validated(`${folder}/adder.ts:agentLoop`)).toMatchObject({ code: 0 })
  })

  it('warns of what looks wrong, and fails for what is', async () => {
    const doubtful = await validated('rollouts/agent-loops/faulty.ts:doubtful')
    expect(doubtful.code).toBe(0)
    expect(doubtful.findings).toContain(
      "warn entrypoint [MISSING_FUNCTION_DESCRIPTION] tools[0].function.description: Function should have a 'description' for better LLM understanding",
    )
    const wrong = await validated('rollouts/agent-loops/faulty.ts:wrong')
    expect(wrong.code).toBe(1)
    expect(wrong.findings).toMatch(/^fail entrypoint .*\[GET_TOOLS_RETURNS_NONE\]/)
  })

  it.each([
    ['nowhere.ts:agentLoop', 'nowhere.ts does not exist.'],
    [
      'rollouts/agent-loops/adder.ts:loop',
      "adder.ts has no export 'loop'. Its exports: Adder, agentLoop, number.",
    ],
    [
      'rollouts/agent-loops/adder.ts:number',
      "'number' must be a RolloutAgentLoop or a subclass of it, got number.",
    ],
    ['rollouts/agent-loops/faulty.ts', 'faulty.ts:<export>. It exports: choosy, doubtful, wrong.'],
    ['rollouts/agent-loops/faulty.ts:Unmakeable', "Cannot instantiate 'Unmakeable': no settings"],
    ['rollouts/broken/throws.ts', 'Cannot load the entrypoint'],
  ])('says what is wrong with %s', async (spec, message) => {
    const { code, findings } = await validated(spec)
    expect(code).toBe(1)
    expect(findings).toContain(message)
  })
})

describe('osmosis test of a workflow', () => {
  const test = [
    'test',
    '-m',
    'rollouts/echo/main.ts',
    '-d',
    'data/words.jsonl',
    '--policy',
    'policies/echo.ts',
  ]

  it('runs every row with its grader, and says how each went', async () => {
    const { code, stdout } = await osmosis([...test, '--limit', '2'])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^\[1\/2\] Row 0: OK \(.*, reward 1\)\n\[2\/2\] Row 1: OK \(.*, reward 1\)\n/,
    )
    expect(stdout).toContain('Mean reward: 1.000 (2 rewards)')
  })

  it('ends with 130 on Ctrl-C while its server starts', async () => {
    useProcesses()
    const module = path.join(temporaryFolder(), 'main.ts')
    const echo = path.join(workspace, 'rollouts/echo/main.ts')
    // The command loads it as well, before the server does.
    const loaded = JSON.stringify(path.join(path.dirname(module), 'loaded'))
    const waits = `import { existsSync, writeFileSync } from 'node:fs'
if (existsSync(${loaded})) await new Promise((end) => setTimeout(end, 600_000))
writeFileSync(${loaded}, '')
`
    writeFileSync(module, `export { EchoWorkflow } from '${echo}'\n${waits}`)
    const args = test.map((arg) => (arg.startsWith('rollouts') ? module : arg))
    const command = start(args)
    await command.printed(/Testing the workflow/)
    const { code, stderr } = await command.end()
    expect(code).toBe(130)
    expect(stderr).not.toContain('error:')
  })

  it('refuses flags that only agent loops have', async () => {
    expect(await fails(...test, '--max-turns', '3')).toContain('are for agent loops')
  })
})

describe('osmosis test', () => {
  it('runs every row as a trainer would, says how each went, and fails when one failed', async () => {
    const folder = temporaryFolder()
    const output = path.join(folder, 'made/on/demand.json')
    const log = path.join(folder, 'traces')
    const { code, stdout } = await osmosis(
      ['test', '-m', adder, ...data, ...policy, '--output', output, '--log', log],
      noRetries,
    )
    expect(code).toBe(1)
    const lines = stdout.replaceAll(/\d+(\.\d)? m?s\b/g, 'T').split('\n')
    expect(lines.slice(0, 4)).toEqual([
      '[1/4] Row 0: OK (T, 28 tokens, reward 1)',
      expect.stringMatching(
        /^\[2\/4\] Row 1: FAILED \(T, 0 tokens\) - The policy endpoint answered 500: no two numbers/,
      ),
      '[3/4] Row 2: OK (T, 28 tokens, reward 0)',
      expect.stringMatching(/^\[4\/4\] Row 3: OK/),
    ])
    expect(lines.slice(5, 10)).toEqual([
      'Total: 4',
      'Passed: 3',
      'Failed: 1',
      'Mean reward: 0.667 (3 rewards)',
      'Duration: T',
    ])
    expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({
      summary: { total: 4, passed: 3, failed: 1, stopped_early: false },
      results: [
        {
          row_index: 0,
          success: true,
          error: null,
          token_usage: { num_llm_calls: 2, total_tokens: 28 },
          reward: 1,
          finish_reason: 'stop',
        },
        { row_index: 1, success: false, error: expect.stringContaining('no two numbers') },
        { row_index: 2, success: true, reward: 0 },
        { row_index: 3, success: true, reward: 1 },
      ],
    })
    expect(readdirSync(log)).toHaveLength(4)
  })

  it('continues after a row that the loop has no tools for', async () => {
    const choosy = 'rollouts/agent-loops/faulty.ts:choosy'
    const { code, stdout } = await osmosis(['test', '-m', choosy, ...data, ...policy])
    expect(code).toBe(1)
    expect(
      stdout
        .replaceAll(/\(.*?\)/g, '()')
        .split('\n')
        .slice(0, 4),
    ).toEqual([
      '[1/4] Row 0: OK ()',
      expect.stringMatching(/^\[2\/4\] Row 1: FAILED \(\) - .*nothing to add/),
      '[3/4] Row 2: OK ()',
      '[4/4] Row 3: OK ()',
    ])
  })

  it('runs the rows between offset and limit, and prints what the loop reported', async () => {
    const args = ['--offset', '2', '--limit', '1', '--max-turns', '1']
    const { code, stdout } = await osmosis(['test', '-m', adder, ...data, ...policy, ...args])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^\[1\/1\] Row 2: FAILED \(.*\) - too many turns\n/)
    expect(await fails('test', '-m', adder, ...data, ...policy, '--offset', '4')).toContain(
      'The dataset selected no rows: it has 4, and an offset of 4 leaves none.',
    )
  })

  it('asks any OpenAI-compatible endpoint, with the tools and the parameters of the flags', async () => {
    const upstream = await endpoint((_, response) => say(response, '5'))
    const flags = `--limit 1 --quiet --base-url ${upstream.url}/v1 --model m1 --api-key-env MY_KEY --temperature 0.5 --max-tokens 64`
    const { code, stdout } = await osmosis(['test', '-m', adder, ...data, ...flags.split(' ')], {
      MY_KEY: 'sk-1',
    })
    expect([code, stdout.split('\n')[1]]).toEqual([0, 'Total: 1'])
    expect(upstream.received).toMatchObject([
      {
        path: '/v1/chat/completions',
        headers: { authorization: 'Bearer sk-1' },
        body: {
          model: 'm1',
          messages: [{ role: 'user', content: '2 and 3' }],
          temperature: 0.5,
          top_p: 1,
          max_tokens: 64,
          tools: [{ type: 'function', function: { name: 'add', description: 'Add two numbers' } }],
        },
      },
    ])
    expect(upstream.received[0]?.body).not.toHaveProperty('rollout_id')
  })

  it.each([
    [401, 1],
    [402, 1],
    // One more call tests whether the prompt is the reason.
    [403, 2],
    [404, 1],
  ])('stops when a model call is answered %i, and says why', async (status, calls) => {
    const upstream = await endpoint((_, response) => refuse(response, status, 'not you'), {
      preflight: true,
    })
    const output = path.join(temporaryFolder(), 'results.json')
    const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1', '--output', output]
    const { code, stdout } = await osmosis(['test', '-m', adder, ...data, ...address])
    expect(code).toBe(1)
    expect(stdout).toMatch(/\nTotal: 1\nPassed: 0\n/)
    const reason = `The policy answered ${status}: {"error":{"message":"not you"}}`
    expect(stdout).toContain(`\nStopped early. ${reason}\n`)
    expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({
      summary: { total: 1, stopped_early: true, stop_reason: reason },
    })
    expect(upstream.received).toHaveLength(calls)
  })

  it('continues after a row that was answered 502', async () => {
    expect(await endOfAnswered(502)).toEqual(continued(502))
  })

  it.each([429, 500])(
    'continues after a row that was answered %i',
    { tags: 'nightly' },
    async (status) => {
      expect(await endOfAnswered(status)).toEqual(continued(status))
    },
  )

  it('ends with 130 on Ctrl-C, and says what was done', async () => {
    const upstream = await endpoint(({ body }, response) => {
      if (JSON.stringify(body).includes('2 and 3')) say(response, '5')
    })
    const output = path.join(temporaryFolder(), 'results.json')
    const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1', '-o', output]
    const command = start(['test', '-m', adder, ...data, ...address])
    await command.printed(/Row 0: OK/)
    await expect.poll(() => upstream.received.length).toBe(2)
    const { code, stdout } = await command.end()
    expect(code).toBe(130)
    expect(stdout).toMatch(/^\[1\/4\] Row 0: OK .*\n\nTotal: 1\nPassed: 1\nFailed: 0\n/)
    expect(stdout).toContain('\nStopped early. interrupted\n')
    expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({
      summary: { total: 1, failed: 0, stopped_early: true, stop_reason: 'interrupted' },
      results: [{ row_index: 0, success: true }],
    })
  })

  it('continues after an unhandled rejection in the loop', { tags: 'slow' }, async () => {
    const straying = 'rollouts/agent-loops/straying.ts'
    const args = ['test', '-m', straying, ...data, ...policy, '--limit', '1', '--quiet']
    const { code, stdout, stderr } = await startOsmosis(args).finished
    expect([code, stdout]).toEqual([0, expect.stringContaining('\nPassed: 1\n')])
    expect(stderr).toContain('warning: unhandled rejection in user code: the loop forgot this\n')
  })

  it('says before it runs anything that results or traces cannot be written', async () => {
    const folder = temporaryFolder()
    const dangling = path.join(folder, 'results.json')
    symlinkSync(path.join(folder, 'nowhere/results.json'), dangling)
    const run = ['test', '-m', adder, ...data, ...policy]
    expect(await fails(...run, '-o', '')).toBe(
      'error: --output must name a file, e.g. results.json; it is empty.\n',
    )
    expect(await fails(...run, '-o', dangling)).toMatch(
      /^error: --output cannot be written to .*results\.json: ENOENT.*\n$/,
    )
    expect(await fails(...run, '--log', 'data/sums.jsonl/traces')).toMatch(
      /^error: --log cannot be written to data\/sums\.jsonl\/traces: ENOTDIR.*\n$/,
    )
    expect(await fails(...run, '--log', '')).toBe(
      'error: --log must name a folder, e.g. traces; it is empty.\n',
    )
  })

  it('keeps earlier results until there are new ones, and says when those cannot be written', async () => {
    const folder = path.join(temporaryFolder(), 'results')
    const output = path.join(folder, 'results.json')
    const earlier: string[] = []
    const upstream = await endpoint((_, response) => {
      if (existsSync(output)) earlier.push(readFileSync(output, 'utf8'))
      if (earlier.at(-1) === 'earlier') rmSync(folder, { recursive: true })
      say(response, '5')
    })
    const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1', '--limit', '1']
    const run = ['test', '-m', adder, ...data, ...address, '-o', output]
    expect((await osmosis(run)).code).toBe(0)
    writeFileSync(output, 'earlier')
    const { code, stdout, stderr } = await osmosis(run)
    expect([code, earlier]).toEqual([2, ['', 'earlier']])
    expect(stdout).toContain('Total: 1\n')
    expect(stderr).toMatch(/\nerror: --output cannot be written to .*results\.json: ENOENT.*\n$/)
  })

  it('requires a policy, and rejects conflicting flags', async () => {
    expect(await fails('test', '-m', adder, ...data, '--policy', 'unknown')).toBe(
      'error: There is neither a policy nor a module named unknown. Policies in osmosis.toml: echo, adding.\n',
    )
    expect(await fails('test', '-m', adder, ...data, '--base-url', 'http://x')).toBe(
      'error: Pass --model: the endpoint needs the name of a model.\n',
    )
    expect(await fails('test', '-m', adder, ...data, ...policy, '--row', '1')).toBe(
      'error: --row can only be used with --interactive.\n',
    )
    for (const flag of [['-o', 'results.json'], ['--output', ''], ['--quiet']]) {
      expect(await fails('test', '-m', adder, ...data, ...policy, '-i', ...flag)).toBe(
        'error: --output and --quiet cannot be used with --interactive.\n',
      )
    }
    for (const flag of [
      ['--model', 'm1'],
      ['--api-key-env', 'MY_KEY'],
    ]) {
      expect(await fails('test', '-m', adder, ...data, ...policy, ...flag)).toBe(
        'error: --model and --api-key-env belong to an endpoint: leave them out with --policy.\n',
      )
    }
    expect(await fails('test', '-m', adder, ...data, ...policy, '--temperature', 'x')).toContain(
      'It must be a number.',
    )
    expect(await fails('test', '-m', adder, ...data, ...policy, '--limit', '0')).toContain(
      "'--limit <rows>' argument '0' is invalid. It must be a whole number, 1 or more.",
    )
    expect(await fails('test', '-m', adder, ...data, '--base-url', 'x', '--model', 'm')).toContain(
      'It must be an http or https URL',
    )
  })
})

/** How four rows end of which the first is answered with a status. */
async function endOfAnswered(status: number): Promise<{ code: number | null; stdout: string }> {
  const upstream = await endpoint(({ body }, response) => {
    if (JSON.stringify(body).includes('2 and 3')) refuse(response, status, 'not now')
    else say(response, '5')
  })
  const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1']
  const { code, stdout } = await osmosis(['test', '-m', adder, ...data, ...address], noRetries)
  return { code, stdout }
}

function continued(status: number): { code: number; stdout: string } {
  const lines = [
    `^\\[1/4\\] Row 0: FAILED .* answered ${status}: not now .*`,
    String.raw`\[2/4\] Row 1: OK[^]*`,
    'Total: 4',
    'Passed: 3',
    'Failed: 1\n(?![^]*Stopped early)',
  ]
  return { code: 1, stdout: expect.stringMatching(lines.join('\n')) as string }
}
