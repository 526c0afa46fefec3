import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { here } from '../in-process.ts'
import { json, platformUser } from './on-platform.ts'

describe.each([
  ['eval', 'evalRuns', 'eval-runs'],
  ['train', 'trainingRuns', 'training-runs'],
] as const)('osmosis %s', (kind, key, route) => {
  it('lists runs and shows one with its metrics', async () => {
    const { platform, osmosis } = await platformUser()
    platform[key].add('first', { model_name: 'qwen' })
    platform[key].add('second')
    platform[key].metrics = { overview: { duration_ms: 5 } }
    platform[key].checkpoints = [{ id: 'c-1', checkpoint_step: 10 }]
    const list = json((await osmosis(`${kind} list --limit 1 --json`)).stdout)
    expect(list).toMatchObject({ items: [{ name: 'first' }], total_count: 2, next_offset: 1 })
    expect((await osmosis(`${kind} list`)).stdout).toMatch(/^NAME .*\nfirst +running +qwen/)

    const { data } = json((await osmosis(`${kind} info first --json`)).stdout)
    expect(data).toMatchObject({
      name: 'first',
      metrics: { overview: { duration_ms: 5 } },
      ...(kind === 'train' && { checkpoints: [{ id: 'c-1' }] }),
    })
  })

  it('shows a run that has no metrics yet', async () => {
    const { platform, osmosis } = await platformUser()
    const { id } = platform[key].add('young')
    platform.fail(`GET ${route}/${id}/metrics`, { status: 404 })
    const { code, stdout } = await osmosis(`${kind} info young`)
    expect([code, stdout]).toEqual([0, expect.stringContaining('name    ')])
  })

  it('shows the log of a run', async () => {
    const { platform, osmosis } = await platformUser()
    platform[key].add('first')
    platform[key].logs.push({ timestamp: '10:00', level: 'info', message: 'begun' })
    expect((await osmosis(`${kind} logs first`)).stdout).toBe('10:00  info  begun\n')
    expect((await osmosis(`${kind} logs first --limit 201`)).code).toBe(1)
  })

  it('stops a run once somebody has agreed', async () => {
    const { platform, osmosis } = await platformUser()
    const run = platform[key].add('first')
    const asked = await osmosis(`${kind} stop first --json`)
    expect([asked.code, json(asked.stderr)]).toMatchObject([
      1,
      { error: { code: 'INTERACTIVE_REQUIRED', details: { prompt: 'Stop the run first?' } } },
    ])
    expect(run.status).toBe('running')
    const { code, stdout } = await osmosis(`${kind} stop first --yes --json`)
    expect([code, json(stdout)]).toMatchObject([
      0,
      { status: 'success', operation: `${kind}.stop`, resource: { status: 'stopped' } },
    ])
    expect(run.status).toBe('stopped')
    expect((await osmosis(`${kind} stop other --yes`)).code).toBe(1)
  })
})

it('osmosis eval retry runs again what failed', async () => {
  const { platform, osmosis } = await platformUser()
  platform.evalRuns.add('first')
  expect(json((await osmosis('eval retry first --yes --json')).stdout)).toMatchObject({
    operation: 'eval.retry',
    resource: { retryable_samples: 3 },
  })
})

describe('osmosis eval download', () => {
  const files = [
    ['metrics.json', '{}'],
    ['trajectories/a/trajectory.json', '{"steps":[]}'],
  ] as const

  it('writes the files, asks for a new address when one has expired, and keeps what is there', async () => {
    const { platform, osmosis } = await platformUser()
    platform.evalRuns.add('first')
    for (const [name, text] of files) platform.evalRuns.files.set(name, text)
    platform.evalRuns.expiredOnce.add('metrics.json')
    const { code, stdout } = await osmosis('eval download first --rows 3,10-20 --json')
    expect([code, json(stdout)]).toMatchObject([
      0,
      { status: 'success', resource: { downloaded: 2, skipped: 0, failed: [] } },
    ])
    for (const [name, text] of files) expect(readFileSync(here(`first/${name}`), 'utf8')).toBe(text)
    const { query } = platform.requests[0] ?? {}
    expect(Object.fromEntries(query ?? [])).toEqual({
      types: 'metrics,trajectories',
      rows: '3,10-20',
    })
    expect(stdout).not.toContain('planted-signature')

    const again = await osmosis('eval download first')
    expect(again.stdout).toMatch(/^Downloaded 0 files to .*first\. 2 were there already\.\n$/)
    expect(json((await osmosis('eval download first --overwrite --json')).stdout)).toMatchObject({
      resource: { downloaded: 2 },
    })
  })

  it('is partial, with 1, when a file does not come', async () => {
    const { platform, osmosis } = await platformUser()
    platform.evalRuns.add('first')
    const [[name, text]] = files
    platform.evalRuns.files.set(name, text)
    mkdirSync(here('first'))
    writeFileSync(here('first/trajectories'), 'a file where a folder should be')
    platform.evalRuns.files.set('trajectories/a.json', '{}')
    for (const _ of [1, 2, 3]) {
      platform.fail('GET run-files/eval/eval-1/metrics.json', { body: 'cut' })
    }
    const failing = await osmosis('eval download first --types metrics --json')
    expect([failing.code, json(failing.stdout || '{}')]).toMatchObject([
      1,
      {
        status: 'partial',
        resource: { failed: expect.arrayContaining([{ path: name, error: expect.any(String) }]) },
      },
    ])
    expect(existsSync(here(`first/${name}`))).toBe(false)
  })

  it.each([
    '../escape.json',
    '/etc/passwd',
    'trajectories/../../x',
    'other.txt',
    'logs.txt/x',
    'trajectories\\x',
  ])('writes nothing when the platform names %s', async (name) => {
    const { platform, osmosis } = await platformUser()
    platform.evalRuns.add('first')
    platform.evalRuns.files.set(name, 'x')
    const { code, stderr } = await osmosis('eval download first --json')
    expect([code, json(stderr)]).toMatchObject([1, { error: { code: 'PLATFORM_ERROR' } }])
    expect(existsSync(here('first'))).toBe(false)
  })

  it('knows four types', async () => {
    const { osmosis } = await platformUser()
    expect((await osmosis('eval download first --types images')).code).toBe(1)
  })
})
