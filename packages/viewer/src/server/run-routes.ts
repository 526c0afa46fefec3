import type { IncomingMessage, ServerResponse } from 'node:http'

import { errorMessage } from '@osmosis/core'
import { parseJson } from '@osmosis/core/http'

import type { OpenRun } from '../runs/open-run.ts'
import type { FoundView, RunCatalog } from '../runs/run-catalog.ts'
import type { RunSummaries } from '../runs/run-summaries.ts'
import type { RunView } from '../runs/run-view.ts'
import { Stamped } from '../runs/stamped.ts'
import type { TrainingCatalog } from '../trainings/training-catalog.ts'
import type { ItemName, LiveUpdate, RegradeAnswer } from '../wire.ts'
import { compressJson, replyCompressed, replyJson, replyText, safeHeaders } from './replies.ts'

/** The data sources of the routes. */
export interface RouteParts {
  readonly shelf: RunCatalog
  readonly summaries: RunSummaries
  readonly trainings: TrainingCatalog
  /** See `ViewerOptions`. */
  readonly regrade: ((location: string) => Promise<string>) | undefined
  readonly canRegrade: ((location: string) => Promise<boolean>) | undefined
}

/** Maximum size of a note. Bytes. */
const maxNoteBytes = 64 * 1024

/** Interval of heartbeats on an event stream. Milliseconds. */
const heartbeatMs = 15_000

interface Call {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  /** Resolves with undefined when the page cannot grade the run. */
  readonly grader: () => Promise<RouteParts['regrade']>
}

/** Answers a request for data, which the caller has authorised. */
export async function answerApi(
  { shelf, summaries, trainings, regrade, canRegrade }: RouteParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  const [, api, kind, name, what = '', item = '', ...rest] = pathOf(url)
  if (api === 'api' && kind === 'trainings' && item === '' && rest.length === 0) {
    await answerTraining(trainings, name, `${request.method ?? ''} ${what}`, response)
    return
  }
  if (api !== 'api' || kind !== 'runs' || rest.length > 0) {
    replyText(response, 404, 'Not found.')
    return
  }
  if (name === undefined) {
    await replyJson(response, await summaries.list())
    return
  }
  const found = await shelf.find(name)
  if (found === undefined) {
    replyText(response, 404, `There is no run ${name}.`)
    return
  }
  const grader: Call['grader'] = async () =>
    (await canRegrade?.(found.run.location)) === false ? undefined : regrade
  const call = { request, response, url, grader }
  await answerRun(found, `${request.method ?? ''} ${what}`, item, call)
}

async function answerTraining(
  trainings: TrainingCatalog,
  name: string | undefined,
  what: string,
  response: ServerResponse,
): Promise<void> {
  if (name === undefined) {
    await replyJson(response, await trainings.list())
    return
  }
  const training = await trainings.find(name)
  if (training === undefined) replyText(response, 404, `There is no training ${name}.`)
  else if (what === 'GET ') await replyJson(response, await training.answer())
  else if (what === 'GET rows') await replyJson(response, await training.rows())
  else replyText(response, 404, 'Not found.')
}

async function answerRun(
  { run, view, variant }: FoundView,
  what: string,
  item: string,
  { request, response, url, grader }: Call,
): Promise<void> {
  switch (what) {
    case 'GET ':
      replyCompressed(response, await viewBody(run, view, (await grader()) !== undefined))
      return
    case 'GET transcripts': {
      const name = toItemName(item)
      const transcript = name && (await run.transcript(view, name))
      if (transcript) await replyJson(response, transcript)
      else replyText(response, 404, `The rollout ${item} has not ended.`)
      return
    }
    case 'GET search': {
      const words = url.searchParams.getAll('text').filter((word) => word !== '')
      const signal = closedSignal(response)
      try {
        await replyJson(response, await run.search(view, words, signal))
      } catch (error) {
        if (!signal.aborted) throw error
      }
      return
    }
    case 'POST notes': {
      const note = toNote(await bodyOf(request))
      if (note === undefined) replyText(response, 400, 'A note has row, attempt, tag and text.')
      else await replyJson(response, await run.addNote(note))
      return
    }
    case 'POST regrade': {
      const regrade = await grader()
      if (regrade === undefined) replyText(response, 404, 'This page cannot grade.')
      else await replyJson(response, await gradeAgain(run, regrade))
      return
    }
    case 'GET events':
      sendEvents(response, (follower) => run.follow(variant, follower))
      return
    default:
      replyText(response, 404, 'Not found.')
  }
}

/** One at a time for each run: the next one replaces the grades of this one. */
const gradings = new WeakMap<OpenRun, Promise<RegradeAnswer>>()

async function gradeAgain(
  run: OpenRun,
  regrade: (location: string) => Promise<string>,
): Promise<RegradeAnswer> {
  const running = gradings.get(run)
  if (running !== undefined) return running
  const grade = async (): Promise<RegradeAnswer> => {
    try {
      return { state: 'graded', name: `${run.name}@${await regrade(run.location)}` }
    } catch (error) {
      return { state: 'failed', problem: errorMessage(error) }
    } finally {
      gradings.delete(run)
    }
  }
  const grading = grade()
  gradings.set(run, grading)
  return grading
}

const bodies = new WeakMap<RunView, Stamped<Promise<Buffer>>>()

/** Cached until the next change: building it for a large run takes much time and memory. */
async function viewBody(run: OpenRun, view: RunView, canRegrade: boolean): Promise<Buffer> {
  const { document, progress, variants } = await run.answer(view)
  const stamp = JSON.stringify([view.changes, progress, variants, canRegrade])
  const body = bodies.get(view) ?? new Stamped()
  bodies.set(view, body)
  return body.get(stamp, () => compressJson({ document, progress, variants, canRegrade }))
}

/** Sends changes as server-sent events, so that the page need not read the run again. */
function sendEvents(
  response: ServerResponse,
  follow: (follower: (update: LiveUpdate) => void) => () => void,
): void {
  response.writeHead(200, { ...safeHeaders, 'content-type': 'text/event-stream' })
  response.write(': open\n\n')
  const unfollow = follow((update) => response.write(`data: ${JSON.stringify(update)}\n\n`))
  const heartbeat = setInterval(() => response.write(': \n\n'), heartbeatMs)
  response.once('close', () => {
    clearInterval(heartbeat)
    unfollow()
  })
}

function pathOf(url: URL): string[] {
  try {
    return url.pathname.split('/').map(decodeURIComponent)
  } catch {
    return []
  }
}

function toItemName(text: string): ItemName | undefined {
  const [, row, attempt] = /^(\d{1,15})\.(\d{1,9})$/.exec(text) ?? []
  return row === undefined ? undefined : [Number(row), Number(attempt)]
}

function closedSignal(response: ServerResponse): AbortSignal {
  const closed = new AbortController()
  response.once('close', () => closed.abort())
  return closed.signal
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > maxNoteBytes) return undefined
    pieces.push(piece)
  }
  return parseJson(Buffer.concat(pieces).toString())
}

function toNote(
  body: unknown,
): { source_row_index: number; run_index: number; tag: string; text: string } | undefined {
  const fields = (body ?? {}) as Record<string, unknown>
  const { source_row_index: row, run_index: attempt, tag, text } = fields
  if (!isPlace(row) || !isPlace(attempt)) return undefined
  if (typeof tag !== 'string' || typeof text !== 'string') return undefined
  return { source_row_index: row, run_index: attempt, tag, text }
}

function isPlace(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
