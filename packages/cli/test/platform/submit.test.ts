import { execFileSync } from 'node:child_process'
import { writeFileSync, chmodSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { here, useProcesses, workIn } from '../in-process.ts'
import { temporaryFolder } from '../osmosis.ts'
import { json } from './on-platform.ts'
import { author, config, entrypoint, reports, secret } from './submitted.ts'

describe('osmosis eval submit', () => {
  it('sends what the config says, and says first what is not known', async () => {
    const { platform, osmosis, workspace } = await author()
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes --json')
    expect(finished.code).toBe(0)
    expect(platform.evalRuns.submitted).toStrictEqual([
      {
        experiment_config: {
          rollout: 'echo',
          entrypoint: 'main.ts',
          model_path: 'Qwen/Qwen3',
          dataset: 'sums',
        },
        evaluation_config: { n: 4 },
        env_config: { LOG_LEVEL: 'debug' },
      },
    ])
    expect(json(finished.stdout)).toMatchObject({
      schema_version: 1,
      status: 'success',
      operation: 'eval.submit',
      resource: {
        id: 'eval-1',
        name: 'eval-run-1',
        status: 'pending',
        model_name: 'Qwen/Qwen3',
        dataset_name: 'sums',
        url: `${platform.url}/eval-runs/eval-1`,
        git: { identity: 'acme/lab' },
        workspace_directory: workspace,
      },
      next_steps_structured: [
        { action: 'eval_info' },
        { action: 'eval_list' },
        { action: 'open_url' },
      ],
    })
    expect(reports(finished).map(({ warning }) => warning?.code)).toEqual([
      'TYPESCRIPT_UNKNOWN',
      'PREFLIGHT',
      'PREFLIGHT',
      'GIT',
      'GIT',
    ])
    // Neither the model nor the dataset is looked up.
    expect(platform.calls).toEqual(['POST eval-runs'])
  })

  it.each<[string, string, RegExp]>([
    ['no grader', entrypoint.replace(/export class EchoGrader.*/, ''), /exports no grader/],
  ])('refuses an entrypoint with %s', async (_, main, message) => {
    const { platform, osmosis } = await author(main)
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes')
    expect(finished.code).toBe(2)
    expect(finished.stderr).toMatch(/rollouts\/echo\/main\.ts: preflight failed: /)
    expect(finished.stderr).toMatch(message)
    expect(platform.calls).toEqual([])
  })

  it('names what is wrong in a config', async () => {
    const { platform, osmosis } = await author()
    writeFileSync(here('configs/eval/echo.toml'), config('[evaluation]\nn = 0\nlimits = 2\n'))
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes --json')
    expect(reports(finished)).toMatchObject([
      {
        error: {
          code: 'VALIDATION',
          details: {
            issues: expect.arrayContaining([{ key: 'evaluation.n', message: expect.any(String) }]),
          },
        },
      },
    ])
    for (const [file, place] of [
      ['configs/training/echo.toml', 'configs/eval/'],
      ['configs/eval/nothing.toml', 'cannot be read'],
    ] as const) {
      const { code, stderr } = await osmosis(`eval submit ${file} --yes`)
      expect([code, stderr]).toEqual([2, expect.stringContaining(place)])
    }
    expect(platform.calls).toEqual([])
  })

  it('takes secrets from the file, the environment and the platform, and shows none of them', async () => {
    const { platform, osmosis } = await author(entrypoint, ['IN_FILE', 'IN_ENV', 'STORED'])
    platform.secrets.push({ name: 'STORED', scope: 'user', value: '' })
    writeFileSync(here('secrets'), `IN_FILE=${secret}\n`)
    const finished = await osmosis(
      'eval submit configs/eval/echo.toml --secrets-file secrets --yes --json',
      { IN_ENV: `other-${secret}` },
    )
    expect(platform.evalRuns.submitted).toMatchObject([
      {
        secrets: {
          required: ['IN_FILE', 'IN_ENV', 'STORED'],
          provided: { IN_FILE: secret, IN_ENV: `other-${secret}` },
        },
      },
    ])
    expect(finished.stdout + finished.stderr).not.toContain(secret)

    const body = { message: `Bad value ${secret}` }
    platform.fail('POST eval-runs', { status: 400, body })
    const refused = await osmosis(
      'eval submit configs/eval/echo.toml --secrets-file secrets --yes --json',
      { IN_ENV: 'another-one' },
    )
    expect(refused.stderr).toContain('Bad value [redacted]')
    expect(refused.stderr).not.toContain(secret)
  })

  it('names secrets without a value here and on the platform', async () => {
    const { platform, osmosis } = await author(entrypoint, ['NOBODY_HAS'])
    platform.fail('GET environment-secrets', { status: 500 })
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes --json')
    expect(reports(finished).at(-1)).toMatchObject({
      error: {
        code: 'INTERACTIVE_REQUIRED',
        details: { missing: ['NOBODY_HAS'], flags: ['--secrets-file'] },
      },
    })
  })
})

describe('osmosis eval submit', { tags: 'nightly' }, () => {
  it.each<[string, string, RegExp]>([
    ['no workflow', 'export const nothing = 1', /No AgentWorkflow subclass/],
    ['an error', 'throw new Error("broken here")', /broken here/],
    ['an end', 'process.exit(3)', /exited with code 3/],
  ])('refuses an entrypoint with %s', async (_, main, message) => {
    // Only a process of its own can end.
    useProcesses()
    const { platform, osmosis } = await author(main)
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes')
    expect(finished.code).toBe(2)
    expect(finished.stderr).toMatch(/rollouts\/echo\/main\.ts: preflight failed: /)
    expect(finished.stderr).toMatch(message)
    expect(platform.calls).toEqual([])
  })

  it('asks before it submits', async () => {
    const { platform, osmosis } = await author()
    const { code, stderr } = await osmosis('eval submit configs/eval/echo.toml')
    expect(code).toBe(1)
    expect(stderr).toContain('whether the hosted platform runs TypeScript entrypoints')
    expect(stderr).toContain('Evaluates Qwen/Qwen3 with rollouts/echo on sums')
    expect(stderr).toContain('No terminal is available for the answer: pass --yes.')
    expect(platform.evalRuns.submitted).toEqual([])
  })

  it('hides the secrets that an entrypoint says, and gives it no login', async () => {
    const main = "throw new Error(process.env.IN_ENV + ' and ' + process.env.OSMOSIS_TOKEN)"
    const { osmosis, platform } = await author(main, ['IN_ENV'])
    const { stderr } = await osmosis('eval submit configs/eval/echo.toml --yes', {
      IN_ENV: secret,
      OSMOSIS_TOKEN: 'planted-token',
      OSMOSIS_TOKEN_PLATFORM_URL: platform.url,
    })
    expect(stderr).toContain('[redacted] and undefined')
    expect(stderr).not.toContain('planted')
  })

  it('is sent once, and says where to look when there is no answer', async () => {
    const { platform, osmosis } = await author()
    platform.fail('POST eval-runs', 'drop')
    const { code, stderr } = await osmosis('eval submit configs/eval/echo.toml --yes')
    expect([code, stderr]).toEqual([1, expect.stringContaining('osmosis platform eval list')])
    expect(platform.calls).toEqual(['POST eval-runs'])
  })

  it('says how secrets are set that the platform does not find', async () => {
    const { osmosis: again, platform: other } = await author()
    const message = 'Secret(s) not found: ONE, TWO'
    other.fail('POST eval-runs', { status: 404, body: { message } })
    const { code, stderr } = await again('eval submit configs/eval/echo.toml --yes')
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(
        'Set them: osmosis platform secret set ONE; osmosis platform secret set TWO',
      ),
    ])
  })

  it('submits an entrypoint that needs a package which is not installed here', async () => {
    const { platform, osmosis } = await author("import 'not-installed-here'")
    const finished = await osmosis('eval submit configs/eval/echo.toml --yes')
    expect(finished.stderr).toContain('needs a package that is not installed here')
    expect([finished.code, platform.evalRuns.submitted.length]).toEqual([0, 1])
  })

  it('checks with GitHub whether a pinned commit is there', async () => {
    const { platform, osmosis, workspace } = await author()
    const git = (...args: string[]): string =>
      execFileSync('git', ['-C', workspace, ...args]).toString()
    git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '--allow-empty', '-qm', 'first')
    const commit = git('rev-parse', 'HEAD').trim()
    const text = config('', [], `commit_sha = "${commit}"`)
    writeFileSync(here('configs/eval/echo.toml'), text)
    const tools = temporaryFolder()
    const answer = (script: string): void => {
      writeFileSync(path.join(tools, 'gh'), `#!/bin/sh\n${script}\n`)
      chmodSync(path.join(tools, 'gh'), 0o755)
    }
    // git has no login here, whatever the machine of the developer has.
    const env = {
      PATH: `${tools}${path.delimiter}${process.env['PATH']}`,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
    }
    answer('echo "gh: No commit found (HTTP 422)" >&2; exit 1')
    const absent = await osmosis('eval submit configs/eval/echo.toml --yes', env)
    expect([absent.code, absent.stderr]).toEqual([2, expect.stringContaining('push it.')])
    expect(platform.calls).toEqual([])
    answer('echo "no network" >&2; exit 1')
    expect((await osmosis('eval submit configs/eval/echo.toml --yes', env)).code).toBe(0)
    answer(`[ "$2" = "repos/acme/lab/commits/${commit}" ]`)
    expect((await osmosis('eval submit configs/eval/echo.toml --yes', env)).code).toBe(0)
  })

  it('takes a workspace by its name when the platform connects it to the repository', async () => {
    const { platform, osmosis, workspace, home } = await author()
    workIn(home)
    const file = path.join(workspace, 'configs/eval/echo.toml')
    const relative = await osmosis('--workspace lab eval submit echo.toml --yes')
    expect([relative.code, relative.stderr]).toEqual([2, expect.stringContaining('absolute path')])
    const { code, stdout } = await osmosis(`--workspace lab eval submit ${file} --yes --json`)
    expect([code, json(stdout)]).toMatchObject([0, { workspace: { name: 'lab' } }])
    platform.workspaces.splice(0)
    expect((await osmosis(`--workspace lab eval submit ${file} --yes`)).code).toBe(1)
  })
})

it('osmosis train submit sends a training run', { tags: 'nightly' }, async () => {
  const { platform, osmosis } = await author()
  const { code } = await osmosis('train submit configs/training/echo.toml --yes --json')
  expect(code).toBe(0)
  expect(platform.trainingRuns.submitted).toMatchObject([
    { training_config: { lr: 1e-6 }, sampling_config: { rollout_top_p: 0.9 } },
  ])
})
