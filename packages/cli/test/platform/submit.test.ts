import { writeFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { here } from '../in-process.ts'
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
