import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { lockRun, openRunFolder } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { startViewer, type Viewer } from '@osmosis/viewer'
import { describe, expect, it, onTestFinished } from 'vitest'

import { journalEvents, journalLine, temporaryFolder } from '../../../test/kit/index.ts'
import type { RunAnswer, RunListing, TranscriptAnswer } from '../src/wire.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { tokenOf, ViewerClient } from './viewer-client.ts'

async function airlineViewer(): Promise<{ root: string; viewer: Viewer; client: ViewerClient }> {
  const root = await temporaryFolder()
  writeAirlineRun(root, { name: 'airline', rows: 12, attempts: 2 })
  const viewer = await startViewer({ root })
  onTestFinished(() => viewer.close())
  return { root, viewer, client: new ViewerClient(viewer.url) }
}

function eventsOf(root: string): ItemEvent[] {
  return journalEvents(path.join(root, 'airline/events.jsonl'))
}

function writeJournal(root: string, events: readonly ItemEvent[]): void {
  writeFileSync(path.join(root, 'airline/events.jsonl'), events.map(journalLine).join(''))
}

describe('who is let in', () => {
  it('serves the page to any local request, but data only with the token', async () => {
    const { client } = await airlineViewer()
    const page = await client.ask('/')
    expect(page.status).toBe(200)
    expect(page.text).not.toContain('airline')
    for (const authorization of ['', 'Bearer', 'Bearer wrong']) {
      expect(await client.ask('/api/runs', { authorization })).toMatchObject({ status: 401 })
    }
    expect((await client.get('/api/runs')).status).toBe(200)
  })

  it('refuses a request that names another host, with the token as without', async () => {
    const { viewer, client } = await airlineViewer()
    const authorization = `Bearer ${tokenOf(viewer.url)}`
    const foreign = [
      'evil.example',
      `evil.example:${viewer.port}`,
      '127.0.0.1',
      `[::1]:${viewer.port}`,
    ]
    for (const host of foreign) {
      expect(await client.ask('/', { host })).toMatchObject({ status: 403 })
      expect(await client.ask('/api/runs', { host, authorization })).toMatchObject({ status: 403 })
    }
    const host = `localhost:${viewer.port}`
    expect(await client.ask('/api/runs', { host, authorization })).toMatchObject({ status: 200 })
  })

  it('gives each viewer a token of its own, in the fragment of its link', async () => {
    const [one, other] = [await airlineViewer(), await airlineViewer()]
    expect(new URL(one.viewer.url).hash).toMatch(/^#token=[\w-]{32}\/$/)
    expect(tokenOf(one.viewer.url)).not.toBe(tokenOf(other.viewer.url))
  })

  it('looks names of runs up and joins none to a path', async () => {
    const { root, client } = await airlineViewer()
    mkdirSync(path.join(root, '../outside'), { recursive: true })
    for (const name of ['..%2Foutside', '%2Fetc', '..', '%00', 'airline%2F..', '%', 'nothing']) {
      expect((await client.get(`/api/runs/${name}`)).status).toBe(404)
    }
    for (const name of ['airline@nothing', 'airline@..%2F..']) {
      expect((await client.get(`/api/runs/${name}`)).status).toBe(404)
    }
  })

  it('forbids caching, framing and content sniffing', async () => {
    const { client } = await airlineViewer()
    for (const { headers } of [await client.ask('/'), await client.ask('/api/runs')]) {
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
      })
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
      expect(headers).not.toHaveProperty('access-control-allow-origin')
    }
  })

  it('has a page whose policy names its one script and its one style', async () => {
    const { client } = await airlineViewer()
    const { text, headers } = await client.ask('/')
    const policy = headers['content-security-policy'] ?? ''
    const hash = (element: string): string => {
      const [, body = ''] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(text) ?? []
      return `sha256-${createHash('sha256').update(body).digest('base64')}`
    }
    expect(policy).toContain(`script-src '${hash('script')}'`)
    expect(policy).toContain(`style-src '${hash('style')}'`)
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("require-trusted-types-for 'script'")
    expect(policy).not.toContain('unsafe')
  })

  it('says that a number is no port', async () => {
    const { root } = await airlineViewer()
    await expect(startViewer({ root, port: 70_000 })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(/^Port 70000 of 127\.0\.0\.1 cannot be opened: /) as string,
    })
  })

  it('says that a port is taken', async () => {
    const { root, viewer } = await airlineViewer()
    await expect(startViewer({ root, port: viewer.port })).rejects.toMatchObject({
      code: 'port_in_use',
    })
  })
})

describe('what it serves', () => {
  it('lists runs with their figures, and says what is wrong with the others', async () => {
    const { root, client } = await airlineViewer()
    mkdirSync(path.join(root, 'other'))
    const [airline, other, ...rest] = await client.json<RunListing[]>('/api/runs')
    expect(airline).toMatchObject({
      name: 'airline',
      state: 'finished',
      ended: 24,
      total: 24,
      rows: 12,
      attempts: 2,
    })
    expect(other).toMatchObject({ name: 'other' })
    expect(other).toHaveProperty('problem')
    expect(rest).toEqual([])
  })

  it('lists the other runs where a file of one cannot be looked at', async () => {
    const { root, client } = await airlineViewer()
    mkdirSync(path.join(root, 'looped'))
    symlinkSync('events.jsonl', path.join(root, 'looped/events.jsonl'))
    const listed = await client.json<RunListing[]>('/api/runs')
    expect(listed).toMatchObject([
      { name: 'airline', state: 'finished' },
      { name: 'looped', problem: expect.stringContaining('manifest.json') as string },
    ])
  })

  it('lists a re-grading that was made since the list was read', async () => {
    const { root, client } = await airlineViewer()
    expect(await client.json('/api/runs')).toMatchObject([{ name: 'airline', variants: [] }])
    await (await openRunFolder(path.join(root, 'airline'))).addGrades('strict', [])
    await expect
      .poll(() => client.json('/api/runs'))
      .toMatchObject([{ name: 'airline', variants: ['airline@strict'] }])
  })

  it('lists a run as running only as long as a process writes to it', async () => {
    const { root, client } = await airlineViewer()
    const location = path.join(root, 'airline')
    const lock = await lockRun(location)
    const { progress } = await client.json<RunAnswer>('/api/runs/airline')
    expect(progress.state).toBe('running')
    expect(await client.json('/api/runs')).toMatchObject([{ state: 'running' }])
    await lock.release()
    await expect.poll(() => client.json('/api/runs')).toMatchObject([{ state: 'finished' }])
  })

  it('lists no run as running whose process was killed', async () => {
    const { root, client } = await airlineViewer()
    const code = `import { lockRun } from '@osmosis/eval'
      await lockRun(process.argv[1])
      console.log('locked')
      setInterval(() => {}, 60_000)`
    const writer = spawn(
      process.execPath,
      ['--input-type=module', '-e', code, path.join(root, 'airline')],
      { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    onTestFinished(() => void writer.kill('SIGKILL'))
    await once(writer.stdout, 'data')
    await expect.poll(() => client.json('/api/runs')).toMatchObject([{ state: 'running' }])
    writer.kill('SIGKILL')
    await once(writer, 'exit')
    await expect.poll(() => client.json('/api/runs')).toMatchObject([{ state: 'finished' }])
  })

  it('gives the columns of a run, and each transcript', async () => {
    const { client } = await airlineViewer()
    const { document, progress } = await client.json<RunAnswer>('/api/runs/airline')
    expect(document.columns.row).toHaveLength(24)
    expect(progress).toEqual({ state: 'finished', ended: 24, total: 24, reason: null })
    const transcript = await client.json<TranscriptAnswer>('/api/runs/airline/transcripts/3.1')
    expect(transcript).toMatchObject({
      state: 'found',
      samples: { agent: { schema_version: 'ATIF-v1.7' } },
    })
    expect((await client.get('/api/runs/airline/transcripts/99.0')).status).toBe(404)
    expect((await client.get('/api/runs/airline/transcripts/x')).status).toBe(404)
  })

  it('says that a transcript is damaged, that its file is lost, or that nothing was said', async () => {
    const { root, client } = await airlineViewer()
    const [first, second] = eventsOf(root)
    const journal = path.join(root, 'airline/events.jsonl')
    const silent = { ...second, trajectory_place: null }
    const damaged = { ...first, trajectory_place: [0, 3, 200, 1] }
    appendFileSync(journal, journalLine(silent) + journalLine(damaged))
    const state = async (item: string): Promise<string> =>
      (await client.json<TranscriptAnswer>(`/api/runs/airline/transcripts/${item}`)).state
    expect(await state('0.1')).toBe('silent')
    expect(await state('0.0')).toBe('damaged')
    expect(await state('5.0')).toBe('found')
    rmSync(path.join(root, 'airline/trajectories'), { recursive: true })
    expect(await state('5.0')).toBe('missing')
  })

  it('gives the stack of what user code threw in a rollout', async () => {
    const { root, client } = await airlineViewer()
    const [first, second] = eventsOf(root)
    const thrown = 'thrown by run() at main.ts:17: no such order'
    const failed = { status: 'failed', error_type: 'agent_error', error_message: thrown }
    const journal = path.join(root, 'airline/events.jsonl')
    appendFileSync(
      journal,
      journalLine({ ...first, ...failed }) + journalLine({ ...second, ...failed }),
    )
    const stack = 'Error: no such order\n    at price (/shop/main.ts:17:5)'
    const cause = { stack: 'Error: no shelf\n    at shelf (/shop/shelf.ts:2:1)' }
    const logged = {
      level: 40,
      time: 1,
      rollout_id: first?.rollout_id,
      error: { stack, cause },
      msg: `workflow failed: ${thrown}`,
    }
    writeFileSync(path.join(root, 'airline/logs.txt'), `printed\n${JSON.stringify(logged)}\n`)
    const stackOf = async (item: string): Promise<unknown> =>
      (await client.json<TranscriptAnswer>(`/api/runs/airline/transcripts/${item}`)).ending.stack
    expect(await stackOf('0.0')).toBe(`${stack}\nCaused by: ${cause.stack}`)
    // Its line comes later, behind one that is longer than any line of the log.
    expect(await stackOf('0.1')).toBeNull()
    const other = JSON.stringify({ ...logged, rollout_id: second?.rollout_id })
    appendFileSync(path.join(root, 'airline/logs.txt'), `${'x'.repeat(3_000_000)}\n${other}\n`)
    expect(await stackOf('0.1')).toContain('main.ts:17')
  })

  it('finds the rollouts in whose transcripts all words are', async () => {
    const { client } = await airlineViewer()
    const { document } = await client.json<RunAnswer>('/api/runs/airline')
    const all = await client.json<number[][]>('/api/runs/airline/search?text=get_user_details')
    const both = await client.json<number[][]>(
      '/api/runs/airline/search?text=GET_USER&text=segment%2060',
    )
    const none = await client.json<number[][]>('/api/runs/airline/search?text=nowhere')
    const cut = document.columns.cut.filter((calls) => calls > 0)
    expect(all.length).toBeGreaterThan(both.length)
    expect(both).toHaveLength(cut.length)
    expect(cut.length).toBeGreaterThan(0)
    expect(none).toEqual([])
  })

  it('says why a run is incomplete', async () => {
    const { root, client } = await airlineViewer()
    writeAirlineRun(root, { name: 'partial', rows: 10, attempts: 2, ended: 7 })
    const { progress } = await client.json<RunAnswer>('/api/runs/partial')
    expect(progress).toEqual({ state: 'incomplete', ended: 7, total: 20, reason: null })
    const metrics = { eval_run: { incomplete_reason: 'The key was refused (401).' } }
    writeFileSync(path.join(root, 'partial/metrics.json'), JSON.stringify(metrics))
    const later = await client.json<RunAnswer>('/api/runs/partial')
    expect(later.progress.reason).toBe('The key was refused (401).')
  })

  it('keeps a note, and shows it with the run from then on', async () => {
    const { client } = await airlineViewer()
    const note = { source_row_index: 3, run_index: 1, tag: 'skipped check', text: 'No question.' }
    expect((await client.note('airline', note)).status).toBe(200)
    const { document } = await client.json<RunAnswer>('/api/runs/airline')
    expect(document.notes).toEqual([expect.objectContaining(note)])
    for (const bad of [{}, { ...note, run_index: -1 }, { ...note, text: 5 }, 'text', null]) {
      expect((await client.note('airline', bad)).status).toBe(400)
    }
    expect((await client.note('airline', { ...note, text: 'x'.repeat(1e6) })).status).toBe(400)
  })

  it('shows the last verdict of a reviewer on the rollout with the reward that was reviewed', async () => {
    const { root, client } = await airlineViewer()
    const event = eventsOf(root).find(({ reward }) => reward === 1)
    if (event === undefined) throw new Error('expected a pass')
    const { source_row_index, run_index, rollout_id } = event
    const item = { source_row_index, run_index, rollout_id, check: 'no-tools' as const, value: 1 }
    const folder = await openRunFolder(path.join(root, 'airline'))
    const place = `/api/runs/airline/transcripts/${source_row_index}.${run_index}`
    const verdicts = async () => (await client.json<TranscriptAnswer>(place)).ending.verdicts
    await folder.addVerdicts([{ ...item, verdict: 'unsure', because: 'short', by: 'Ann' }])
    expect(await verdicts()).toEqual({ 'no-tools': 'unsure: short (Ann)' })
    await folder.addVerdicts([{ ...item, verdict: 'hacked', because: 'it guesses', by: 'Bo' }])
    expect(await verdicts()).toEqual({ 'no-tools': 'hacked: it guesses (Bo)' })
    await folder.addVerdicts([
      { ...item, value: 0.5, verdict: 'earned', because: 'of another reward', by: 'Bo' },
    ])
    expect(await verdicts()).toEqual({})
  })

  it('serves a re-grading as a run of its own, with the rewards that it gave', async () => {
    const { root, client } = await airlineViewer()
    const [first] = eventsOf(root)
    mkdirSync(path.join(root, 'airline/grades'))
    const grade = { source_row_index: 0, run_index: 0, rollout_id: first?.rollout_id, reward: 0.25 }
    writeFileSync(
      path.join(root, 'airline/grades/strict.jsonl'),
      `${JSON.stringify({ ...grade, error: null })}\n`,
    )
    const { variants } = await client.json<RunAnswer>('/api/runs/airline')
    expect(variants).toEqual(['airline', 'airline@strict'])
    const { document } = await client.json<RunAnswer>('/api/runs/airline@strict')
    expect(document.name).toBe('airline@strict')
    // The others have no stored samples that could be graded again, and stay as they are.
    const own = eventsOf(root).map(({ reward }) => reward)
    expect(document.columns.reward).toEqual([0.25, ...own.slice(1)])
    expect((await client.get('/api/runs/airline@strict/transcripts/3.1')).status).toBe(200)
  })

  it('says of how much a re-grading is, and does not call it incomplete', async () => {
    const { root, client } = await airlineViewer()
    const events = eventsOf(root).map((event, index) =>
      index < 20 ? { ...event, sample_place: event.trajectory_place } : event,
    )
    writeJournal(root, events)
    mkdirSync(path.join(root, 'airline/grades'))
    const grades = events
      .slice(0, 5)
      .map(({ source_row_index, run_index, rollout_id }) =>
        JSON.stringify({ source_row_index, run_index, rollout_id, reward: 0.5, error: null }),
      )
    const file = path.join(root, 'airline/grades/partial.jsonl')
    writeFileSync(file, `${grades.join('\n')}\n`)
    const { progress } = await client.json<RunAnswer>('/api/runs/airline@partial')
    // Four items stored nothing that could be graded, and stay as they are.
    expect(progress).toEqual({ state: 'graded', ended: 5, total: 20, reason: null })
    const own = await client.json<RunAnswer>('/api/runs/airline')
    expect(own.progress).toMatchObject({ state: 'finished', ended: 24, total: 24 })
  })
})

describe('a run in progress', () => {
  it('sends what has ended as it ends, notes included', async () => {
    const { root, client } = await airlineViewer()
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    await client.json('/api/runs/airline')
    const updates = await client.updates('airline', stop.signal)
    const next = updates.next()
    const [first] = eventsOf(root)
    const again = { ...first, summary: 'Another ending', reward: 0.75 }
    appendFileSync(path.join(root, 'airline/events.jsonl'), journalLine(again))
    expect((await next).value).toMatchObject({
      events: [{ summary: 'Another ending', reward: 0.75 }],
      progress: { ended: 24, total: 24 },
    })
    const note = { source_row_index: 0, run_index: 0, tag: 'look', text: '' }
    await client.note('airline', note)
    expect((await updates.next()).value).toMatchObject({ notes: [note] })
  })

  it('sends notes that another process writes, and those of a file that was changed', async () => {
    const { root, client } = await airlineViewer()
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    await client.json('/api/runs/airline')
    const updates = await client.updates('airline', stop.signal)
    const next = updates.next()
    const folder = await openRunFolder(path.join(root, 'airline'))
    const note = { source_row_index: 2, run_index: 1, tag: 'look', text: 'Twice.' }
    await folder.addNote(note)
    expect((await next).value).toMatchObject({ notes: [note] })
    const { document } = await client.json<RunAnswer>('/api/runs/airline')
    expect(document.notes).toMatchObject([note])
    writeFileSync(path.join(root, 'airline/notes.jsonl'), '')
    expect((await updates.next()).value).toEqual({ stale: true })
    const later = await client.json<RunAnswer>('/api/runs/airline')
    expect(later.document.notes).toEqual([])
  })

  it('says that a re-grading has to be read again when it has been written again', async () => {
    const { root, client } = await airlineViewer()
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    const folder = await openRunFolder(path.join(root, 'airline'))
    const [first] = eventsOf(root)
    const grade = { source_row_index: 0, run_index: 0, rollout_id: first?.rollout_id ?? '' }
    await folder.replaceGrades('strict', [{ ...grade, reward: 0.25, error: null }])
    await client.json('/api/runs/airline@strict')
    const next = (await client.updates('airline@strict', stop.signal)).next()
    await folder.replaceGrades('strict', [{ ...grade, reward: 0.5, error: null }])
    expect((await next).value).toEqual({ stale: true })
    const { document } = await client.json<RunAnswer>('/api/runs/airline@strict')
    expect(document.columns.reward[0]).toBe(0.5)
  })

  it('shows no grade of a rollout for the one that has taken its place', async () => {
    const { root, client } = await airlineViewer()
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    const events = eventsOf(root).map((event) => ({
      ...event,
      sample_place: event.trajectory_place,
    }))
    writeJournal(root, events)
    const folder = await openRunFolder(path.join(root, 'airline'))
    const grades = events.map(({ source_row_index, run_index, rollout_id }) => ({
      source_row_index,
      run_index,
      rollout_id,
      reward: 0.25,
      error: null,
    }))
    await folder.replaceGrades('strict', grades)
    const rows = async (): Promise<number> => {
      const { document } = await client.json<RunAnswer>('/api/runs/airline@strict')
      return document.columns.row.length
    }
    expect(await rows()).toBe(24)
    const next = (await client.updates('airline@strict', stop.signal)).next()
    const again = { ...events[0], rollout_id: 'another', reward: 1 } as ItemEvent
    appendFileSync(path.join(root, 'airline/events.jsonl'), journalLine(again))
    expect((await next).value).toEqual({ stale: true })
    expect(await rows()).toBe(23)
  })

  it('says that a run has to be read again when another has taken its name', async () => {
    const { root, client } = await airlineViewer()
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    await client.json('/api/runs/airline')
    const next = (await client.updates('airline', stop.signal)).next()
    rmSync(path.join(root, 'airline'), { recursive: true })
    writeAirlineRun(root, { name: 'airline', rows: 3, attempts: 2 })
    expect((await next).value).toEqual({ stale: true })
    const { document } = await client.json<RunAnswer>('/api/runs/airline')
    expect(document.columns.row).toHaveLength(6)
  })
})
