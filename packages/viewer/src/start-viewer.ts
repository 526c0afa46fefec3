import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { errorMessage } from '@osmosis/core'
import { listenOn } from '@osmosis/protocol/http'

import { readPage } from './page-file.ts'
import { type RunPlaces, RunCatalog } from './runs/run-catalog.ts'
import { RunSummaries } from './runs/run-summaries.ts'
import { replyPage, replyText } from './server/replies.ts'
import { answerApi } from './server/run-routes.ts'
import { TrainingCatalog, type TrainingPlaces } from './trainings/training-catalog.ts'

/** Whether a request has this address as its host: DNS rebinding sends the name of another site. */
function isAddressed({ headers }: IncomingMessage, port: number): boolean {
  const { host = '' } = headers
  return host === `127.0.0.1:${port}` || host === `localhost:${port}`
}

/** Whether a request has the token of the printed link, which no other page of the same browser has. */
function isAllowed({ headers }: IncomingMessage, token: string): boolean {
  // Digests have equal lengths for any input.
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** Options of {@link startViewer}. */
export interface ViewerOptions extends RunPlaces, TrainingPlaces {
  /** The port on 127.0.0.1. Default: one that is free. */
  readonly port?: number
  /** The run that the link opens, e.g. `my-run` or `my-run@grading`. Default: the list of runs. */
  readonly run?: string
  /** The training that the link opens instead. */
  readonly training?: string
  /**
   * Grades the stored samples of the run in a folder again, and resolves with the name of the grading. Its error is
   * shown on the page. Default: the page cannot grade.
   */
  readonly regrade?: (location: string) => Promise<string>
  /** Whether the page offers that for the run in a folder. Default: for all. */
  readonly canRegrade?: (location: string) => Promise<boolean>
}

/** A server of the viewer. */
export interface Viewer {
  /**
   * The link to open. Its fragment has the key to everything that the viewer shows: it must not be logged.
   */
  readonly url: string
  readonly port: number
  /** Ends all connections. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Serves the page that shows evaluation runs, to this machine only, and follows runs that other processes
 * write. The caller closes it.
 *
 * @throws OsmosisError with code `port_in_use`, or `invalid_config` for a port that this user may not open
 */
export async function startViewer(options: ViewerOptions): Promise<Viewer> {
  const { port = 0, run, training, regrade, canRegrade, ...places } = options
  const page = await readPage()
  // Part of the link; never logged.
  const token = randomBytes(24).toString('base64url')
  const trainings = new TrainingCatalog(places)
  const shelf = new RunCatalog(places, trainings)
  const parts = { shelf, summaries: new RunSummaries(shelf), trainings, regrade, canRegrade }

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (!isAddressed(request, portOf(server))) replyText(response, 403, 'Wrong host.')
    else if (request.url === '/' && request.method === 'GET') replyPage(response, page)
    else if (isAllowed(request, token)) await answerApi(parts, request, response)
    else replyText(response, 401, 'Open the link that osmosis eval view printed.')
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else replyText(response, 500, errorMessage(error))
    })
  })
  await listenOn(server, { host: '127.0.0.1', port })

  let closed: Promise<void> | undefined
  const close = (): Promise<void> => (closed ??= closeServer(server))
  const place =
    training !== undefined
      ? `/training/${encodeURIComponent(training)}`
      : run === undefined
        ? '/'
        : `/run/${encodeURIComponent(run)}`
  return {
    url: `http://127.0.0.1:${portOf(server)}/#token=${token}${place}`,
    port: portOf(server),
    close,
    [Symbol.asyncDispose]: close,
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo | null)?.port ?? 0
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
