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
    const { id } = platform[key].add('first', { status: 'finished', model: 'qwen' })
    platform[key].add('second')
    platform[key].checkpoints = [{ id: 'c-1', checkpoint_step: 10, status: 'ready' }]
    const list = json((await osmosis(`${kind} list --limit 1 --json`)).stdout)
    expect(list).toMatchObject({ items: [{ name: 'first' }], total_count: 2, next_offset: 1 })
    expect((await osmosis(`${kind} list`)).stdout).toMatch(/^NAME .*\nfirst +finished +qwen +sums/)

    const { data } = json((await osmosis(`${kind} info first --json`)).stdout)
    const model = kind === 'eval' ? { model: 'qwen' } : { model_name: 'qwen' }
    expect(data).toMatchObject({
      [kind === 'eval' ? 'eval_run' : 'training_run']: { id, name: 'first', ...model },
      metrics: { overview: { duration_ms: 5 } },
      metrics_available: true,
      metrics_error: null,
      ...(kind === 'train' && { checkpoints: [{ id: 'c-1' }] }),
    })
    // As the Python command line asks: by the id, but for checkpoints, which only runs that have ended have.
    expect(platform.calls.slice(2)).toEqual([
      `GET ${route}/first`,
      `GET ${route}/${id}/metrics`,
      ...(kind === 'train' ? [`GET ${route}/first/checkpoints`] : []),
    ])
  })

  it('names the list of this machine without a login', async () => {
    const { osmosis } = await platformUser({ loggedIn: false })
    const { code, stderr } = await osmosis(`${kind} list`)
    expect(code).not.toBe(0)
    expect(stderr).toMatch(
      /Not logged in: .*`osmosis eval runs` lists the runs of this machine\.\n/,
    )
  })

  it('writes the JSON of info to a file as well', async () => {
    const { platform, osmosis } = await platformUser()
    platform[key].add('first', { status: 'finished' })
    const { stdout } = await osmosis(`${kind} info first --json -o first.json`)
    expect(readFileSync(here('first.json'), 'utf8')).toBe(stdout)
    const people = await osmosis(`${kind} info first --output again.json`)
    expect([people.stdout.startsWith('{'), readFileSync(here('again.json'), 'utf8')]).toEqual([
      false,
      stdout,
    ])
    const { code, stderr } = await osmosis(`${kind} info first -o no/such/folder.json`)
    expect([code, stderr]).toEqual([2, expect.stringContaining('Cannot write the result to')])
  })

  it('asks for nothing that a run cannot have yet', async () => {
    const { platform, osmosis } = await platformUser()
    platform[key].add('waiting', { status: 'pending' })
    platform[key].add('going')
    const { code, stdout } = await osmosis(`${kind} info waiting`)
    expect([code, stdout]).toEqual([0, expect.stringContaining('No metrics are available yet')])
    expect((await osmosis(`${kind} info going`)).code).toBe(0)
    expect(platform.calls).toEqual([
      `GET ${route}/waiting`,
      `GET ${route}/going`,
      `GET ${route}/${kind === 'eval' ? 'eval' : 'training'}-2/metrics`,
    ])
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
    platform[key].logs.push({
      timestamp: '10:00',
      level: 'info',
      step: 'start',
      message: 'started',
    })
    expect((await osmosis(`${kind} logs first`)).stdout).toBe('10:00  info  start  started\n')
    expect(String(platform.requests[0]?.query)).toBe('limit=50&direction=older')
    expect((await osmosis(`${kind} logs first --limit 201`)).code).toBe(2)
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
      {
        status: 'success',
        resource: {
          eval_run: { id: 'eval-1', name: 'first' },
          selected_types: ['metrics', 'trajectories'],
          files_downloaded: 2,
          files_skipped: 0,
          files_failed: [],
          bytes_downloaded: 14,
          breakdown: { metrics: { files: 1, bytes: 2 }, trajectories: { files: 1, bytes: 12 } },
          output_path: here('first'),
        },
      },
    ])
    for (const [name, text] of files) expect(readFileSync(here(`first/${name}`), 'utf8')).toBe(text)
    expect(platform.calls.slice(0, 2)).toEqual([
      'GET eval-runs/first',
      'GET eval-runs/eval-1/samples/manifest',
    ])
    const { query } = platform.requests[1] ?? {}
    expect(Object.fromEntries(query ?? [])).toEqual({
      types: 'metrics,trajectories',
      rows: '3,10-20',
    })
    expect(stdout).not.toContain('planted-signature')

    const again = await osmosis('eval download first')
    expect(again.stdout).toMatch(/^Downloaded 0 files to .*first\. 2 already existed\.\n$/)
    expect(json((await osmosis('eval download first --overwrite --json')).stdout)).toMatchObject({
      resource: { files_downloaded: 2 },
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
        resource: {
          files_failed: expect.arrayContaining([{ path: name, error: expect.any(String) }]),
        },
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

  it('writes no file of a type that was not requested', async () => {
    const { platform, osmosis } = await platformUser()
    platform.evalRuns.add('first')
    for (const [name, text] of files) platform.evalRuns.files.set(name, text)
    const { code, stdout } = await osmosis('eval download eval-1 --type metrics --json')
    expect([code, json(stdout)]).toMatchObject([
      1,
      {
        status: 'partial',
        resource: { files_downloaded: 1, files_failed: [{ path: files[1][0] }] },
      },
    ])
    expect(existsSync(here('first/metrics.json'))).toBe(true)
    expect(existsSync(here('first/trajectories'))).toBe(false)
    expect((await osmosis('eval download first --types all')).code).toBe(0)
  })

  it('is refused until the run has started', async () => {
    const { platform, osmosis } = await platformUser()
    platform.evalRuns.add('first', { status: 'pending' })
    const { code, stderr } = await osmosis('eval download first')
    expect([code, stderr]).toEqual([1, expect.stringContaining('the run is pending')])
    expect(platform.calls).toEqual(['GET eval-runs/first'])
  })

  it.each(['--types images', '--rows 9-3', '--rows x'])('%s is wrong use', async (flags) => {
    const { osmosis } = await platformUser()
    expect((await osmosis(`eval download first ${flags}`)).code).toBe(2)
  })
})
