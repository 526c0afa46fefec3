import { spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, symlink } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

import { HttpPeer, temporaryFolder, type PeerRequest } from '../kit/index.ts'
import { osmosis } from './osmosis.ts'

const root = path.resolve(import.meta.dirname, '../..')
const folder = path.join(root, '.github/actions/evaluate')

interface Step {
  readonly id?: string
  readonly if?: string
  readonly env: Readonly<Record<string, string>>
  readonly run: string
}

const action = parse(readFileSync(path.join(folder, 'action.yml'), 'utf8')) as {
  inputs: Readonly<Record<string, { default?: string }>>
  runs: { steps: readonly Step[] }
}

interface Comment {
  readonly id: string
  readonly viewerDidAuthor: boolean
  body: string
}

/** The comments of a pull request, behind what the action needs of GitHub's API; two comments fill a page. */
class GitHub extends HttpPeer {
  readonly comments: Comment[] = []
  mayWrite = true

  protected receive({ headers, body }: PeerRequest, response: ServerResponse): void {
    const { query, variables } = body as { query: string; variables: Record<string, string> }
    const data = headers.authorization === 'Bearer secret' ? this.#answer(query, variables) : null
    response.end(
      JSON.stringify(data ?? { errors: [{ message: 'Resource not accessible by integration' }] }),
    )
  }

  #answer(query: string, variables: Readonly<Record<string, string | null>>): object | null {
    if (query.startsWith('query')) return { data: this.#page(variables) }
    if (!this.mayWrite) return null
    const { id, subject, body } = variables
    if (query.includes('addComment') && subject === 'PR_7') this.add(body ?? '')
    const edited = this.comments.find(
      (one) => one.id === id && query.includes('updateIssueComment'),
    )
    if (edited !== undefined) edited.body = body ?? ''
    return { data: {} }
  }

  #page({ owner, name, number, after }: Readonly<Record<string, unknown>>): object {
    expect([owner, name, number]).toEqual(['acme', 'agent', 7])
    const start = after === null ? 0 : Number(after)
    const pageInfo = {
      endCursor: String(start + 2),
      hasNextPage: start + 2 < this.comments.length,
    }
    const comments = { nodes: this.comments.slice(start, start + 2), pageInfo }
    return { repository: { pullRequest: { id: 'PR_7', comments } } }
  }

  add(body: string, viewerDidAuthor = true): void {
    this.comments.push({ id: `C_${this.comments.length}`, viewerDidAuthor, body })
  }
}

const workflow = `
import { AgentWorkflow, Grader, lastAssistantText, requireRolloutContext, toRolloutSample } from '@osmosis/core'

export class Echo extends AgentWorkflow {
  async run(ctx) {
    const rollout = requireRolloutContext('Echo')
    const messages = [...ctx.prompt]
    rollout.registerSampleSource('echo', { getSample: (id) => toRolloutSample({ id, messages }) })
    const { choices } = await rollout.policy('echo').complete({ messages })
    messages.push(choices[0].message)
  }
}
export class Exact extends Grader {
  async grade(ctx) {
    if (process.env.TOKEN !== undefined) throw new Error('the evaluation has the token')
    const answer = lastAssistantText(ctx.sample)
    if (ctx.label === 'w3' && answer !== 'w3') throw new Error(answer)
    ctx.setReward(answer === ctx.label ? 1 : 0)
  }
}
`
const policies = {
  echo: '({ messages }) => String(messages.at(-1)?.content)',
  wrong: "() => '@octocat look'",
}

/** Stands in for npm's, which takes a second to find a command that is here. */
const npx = `#!/bin/sh
[ "$1" = --no-install ] && shift && exec node_modules/.bin/"$@"
`

async function workspace(): Promise<string> {
  const rows = Array.from({ length: 12 }, (_, at) => ({
    user_prompt: `w${at}`,
    ground_truth: `w${at}`,
  }))
  const made = await temporaryFolder({
    'rollouts/echo/main.ts': workflow,
    'programs/npx': npx,
    'data/words.jsonl': rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
    'configs/eval/echo.toml':
      '[experiment]\nrollout = "echo"\nentrypoint = "main.ts"\nmodel_path = "test/model"\ndataset = "words"\n',
    ...Object.fromEntries(
      Object.entries(policies).map(([name, answer]) => [
        `policies/${name}.ts`,
        `import { scriptedPolicy } from '@osmosis/controller'\nexport const policy = scriptedPolicy(${answer})\n`,
      ]),
    ),
  })
  await symlink(path.join(root, 'node_modules'), path.join(made, 'node_modules'))
  await mkdir(path.join(made, 'temporary'))
  await chmod(path.join(made, 'programs/npx'), 0o755)
  return made
}

interface ActionRun {
  readonly code: number | null
  readonly log: string
  readonly summary: string
  /** The output `run`. */
  readonly run: string | undefined
}

/** Runs the steps of the action as GitHub does, in a workspace, for pull request 7 of acme/agent. */
async function act(
  github: GitHub,
  place: string,
  given: Readonly<Record<string, string>>,
): Promise<ActionRun> {
  const defaults = Object.entries(action.inputs).map(([name, { default: value = '' }]) => [
    name,
    value,
  ])
  const inputs: Record<string, string> = {
    ...Object.fromEntries(defaults),
    token: 'secret',
    ...given,
  }
  const outputs = path.join(place, 'temporary/outputs')
  const summary = path.join(place, 'temporary/summary.md')
  for (const file of [outputs, summary]) writeFileSync(file, '')
  const outputOf = (name: string): string | undefined =>
    new RegExp(`^${name}=(.*)$`, 'm').exec(readFileSync(outputs, 'utf8'))?.[1]
  const filled = (text: string): string =>
    text.replaceAll(/\$\{\{ (.*?) \}\}/g, (_, expression: string) => {
      if (expression === 'github.event.pull_request.number') return '7'
      const [, kind, name = ''] =
        /^(inputs|steps\.evaluate\.outputs)\.([\w-]+)$/.exec(expression) ?? []
      if (kind === undefined)
        throw new Error(`expected an expression of this test, got ${expression}`)
      return (kind === 'inputs' ? inputs[name] : outputOf(name)) ?? ''
    })
  let code: number | null = 0
  let log = ''
  for (const { run, env } of action.runs.steps) {
    const child = spawn('bash', ['-e', '-c', run], {
      cwd: place,
      env: {
        PATH: `${place}/programs:${path.dirname(process.execPath)}:${process.env['PATH']}`,
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
        HOME: path.join(place, 'temporary'),
        RUNNER_TEMP: path.join(place, 'temporary'),
        GITHUB_ACTION_PATH: folder,
        GITHUB_OUTPUT: outputs,
        GITHUB_STEP_SUMMARY: summary,
        GITHUB_REPOSITORY: 'acme/agent',
        GITHUB_SERVER_URL: 'https://github.example',
        GITHUB_GRAPHQL_URL: github.url,
        GITHUB_RUN_ID: '42',
        GITHUB_SHA: 'abc123',
        ...Object.fromEntries(Object.entries(env).map(([name, text]) => [name, filled(text)])),
      },
    })
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (log += text))
    const { promise, resolve } = Promise.withResolvers<number | null>()
    child.once('close', resolve)
    const ended = await promise
    code ||= ended
  }
  return { code, log, summary: readFileSync(summary, 'utf8'), run: outputOf('run') }
}

const config = 'configs/eval/echo.toml'
const marker = '<!-- osmosis evaluation: ci -->\n'

describe('the action of this repository', () => {
  it('comments the result, and leaves the comments of others', { tags: 'slow' }, async () => {
    await using github = await new GitHub().start()
    github.add(`${marker}Not ours.`, false)
    github.add('Looks good to me.')
    github.add('<!-- osmosis evaluation: other -->\nOf another evaluation.')
    const others = structuredClone(github.comments)
    const place = await workspace()
    const good = await act(github, place, { config, arguments: '--policy policies/echo.ts -q' })
    expect([good.code, good.run]).toEqual([0, path.join(place, '.osmosis/evals/ci')])
    expect(good.summary).toMatch(/^### ci\n\n {4}ci {2}finished [^]*^ {4}Pass rate +100\.0 % /m)
    expect(github.comments.slice(0, 3)).toEqual(others)
    const [own, ...rest] = github.comments.slice(3)
    expect(rest).toEqual([])
    expect(own?.body).toBe(
      `${marker}${good.summary}\n[Log](https://github.example/acme/agent/actions/runs/42) of abc123\n`,
    )
  })

  it('edits its comment when there is a comparison', { tags: 'slow' }, async () => {
    await using github = await new GitHub().start()
    github.add('Looks good to me.')
    const others = structuredClone(github.comments)
    github.add(`${marker}The result before.`)
    const place = await workspace()
    const good = ['eval', 'run', config, '--name', 'ci', '--policy', 'policies/echo.ts', '-q']
    expect((await osmosis(good, place)).code).toBe(0)
    const worse = await act(github, place, {
      config,
      name: 'ci',
      arguments: '\n--policy policies/wrong.ts\n-q\n',
      baseline: path.join(place, '.osmosis/evals/ci.1'),
      'fail-if-worse': '5',
    })
    expect([worse.code, worse.log]).toEqual([
      3,
      expect.stringContaining('is worse than ci.1, by more than 5 points.'),
    ])
    expect(github.comments.slice(0, 1)).toEqual(others)
    expect(github.comments).toHaveLength(2)
    expect(github.comments[1]?.body).toMatch(
      /^<!-- osmosis evaluation: ci -->\n\*\*Worse by 100\.0 points\*\*[^]*\n<details>\n<summary>Result<\/summary>\n\n### ci\n\n {4}ci {2}finished /,
    )
    // GitHub sends no notification for names in code.
    expect(github.comments[1]?.body).toMatch(/^ {4}.*@octocat look/m)
    expect(worse.summary).toMatch(/^### ci\n\n(?: {4}.*\n)+\*\*Worse by 100\.0 points\*\*/)
  })

  it(
    'ends with the code of an evaluation that has no result, and says so',
    { tags: 'nightly' },
    async () => {
      await using github = await new GitHub().start()
      github.add(`${marker}An old result.`)
      const place = await workspace()
      const { code, summary } = await act(github, place, { config: 'configs/eval/none.toml' })
      expect([code, summary]).toEqual([2, ''])
      expect(github.comments.map(({ body }) => body)).toEqual([
        expect.stringContaining(`${marker}### ci: no result\n\nThe evaluation ended with code 2.`),
      ])
    },
  )

  it(
    'compares nothing without a baseline that is there, and fails for no other reason',
    { tags: 'nightly' },
    async () => {
      await using github = await new GitHub().start()
      github.mayWrite = false
      const place = await workspace()
      // Here npm's own npx finds the command.
      rmSync(path.join(place, 'programs'), { recursive: true })
      const { code, log, summary } = await act(github, place, {
        config,
        arguments: '--policy policies/echo.ts -q --limit 1',
        baseline: 'nowhere',
        'fail-if-worse': '0',
      })
      expect(code).toBe(0)
      expect(summary).toMatch(/^### ci\n\n {4}ci {2}finished /)
      expect(log).toContain('There is no run in nowhere: the result is not compared.')
      expect(log).toContain(
        '::warning::The result is not a comment on the pull request, it is in the summary of the job: Resource not accessible by integration',
      )
    },
  )

  it(
    'says why two runs cannot be compared, which is not a failure without a limit',
    { tags: 'nightly' },
    async () => {
      await using github = await new GitHub().start()
      const place = await workspace()
      const flags = '--policy policies/echo.ts -q'
      await act(github, place, { config, name: 'main', arguments: `${flags} --rows 0` })
      const other = { config, arguments: `${flags} --rows 1`, baseline: '.osmosis/evals/main' }
      expect((await act(github, place, other)).code).toBe(0)
      expect(github.comments.at(-1)?.body).toMatch(
        /^<!-- .* -->\n> error: main and ci have no row in common/,
      )
    },
  )
})
