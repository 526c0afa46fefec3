import { closeSync, openSync, readSync, statSync } from 'node:fs'

import { errorMessage } from '@osmosis/core'
import { assertApiKey } from '@osmosis/core/http'
import type { RowCheck } from '@osmosis/eval'
import {
  type ServerShell,
  createStderrLogger,
  serve,
  silentLogger,
  type ListeningServer,
  type Logger,
  type ServableApp,
} from '@osmosis/server'

import type { EntrypointFacts, ServedEntrypoint } from '../child/served-workflow.ts'
import {
  endSignal,
  resolvePath,
  displayPath,
  printOut,
  standardError,
} from '../command/command-context.ts'
import type { LogFlags } from '../command/flags.ts'
import { invalid } from '../command/wrong-use.ts'
import type { KeyPlan, ServePlan } from './serve-plan.ts'

/**
 * The accepted keys in their order; undefined where none is required, and when no key is set.
 *
 * @param environmentKey - used when the plan names no key
 * @throws OsmosisError with code `invalid_config` for a file without keys
 */
export function acceptedKeys(
  { areRequired, key, file }: KeyPlan,
  environmentKey: string | undefined,
): readonly [string, ...string[]] | undefined {
  if (!areRequired) return undefined
  if (file !== undefined) return keysIn(file)
  const only = key ?? environmentKey
  return only === undefined ? undefined : [only]
}

let isReadAgain = false
const noteHangUp = (): void => {
  isReadAgain = true
}

/** Defers SIGHUP, which would end the process, until the server handles it. */
export function awaitKeyFile(file: string | undefined): void {
  if (file !== undefined && endSignal() === undefined) process.on('SIGHUP', noteHangUp)
}

/** Reads the file of keys again on SIGHUP. An invalid file changes nothing. */
function followKeyFile(server: ServerShell, file: string | undefined): void {
  if (file === undefined || endSignal() !== undefined) return
  // User code may change the folder of the process.
  const absolute = resolvePath(file)
  const readAgain = (): void => {
    try {
      assertReadAgain(absolute)
      const keys = keysIn(absolute)
      server.replaceApiKeys(keys)
      server.logger.info({ file, keys: keys.length }, 'read the keys of callers again')
    } catch (error) {
      server.logger.error({ file }, `the keys of callers are unchanged: ${errorMessage(error)}`)
    }
  }
  process.on('SIGHUP', readAgain)
  process.off('SIGHUP', noteHangUp)
  if (isReadAgain) readAgain()
}

/** One key per line; empty lines and lines that begin with `#` are ignored. */
function keysIn(file: string): readonly [string, ...string[]] {
  let text: string
  try {
    text = keyFileBytes(displayPath(file))
      .toString()
      .replace(/^\uFEFF/, '')
  } catch (error) {
    throw invalid(`--api-key-file cannot be read: ${errorMessage(error)}`)
  }
  const lines = text.split('\n').map((line) => line.trim())
  for (const [index, line] of lines.entries()) {
    if (isKey(line)) assertApiKey(line, `Line ${index + 1} of ${resolvePath(file)}`)
  }
  const [first, ...others] = lines.filter(isKey)
  if (first !== undefined) return [first, ...others]
  throw invalid(`${resolvePath(file)} has no key: write one key per line.`)
}

/** Bytes: far more than all keys have, and an end for devices that have none. */
const largestKeyFile = 2 ** 20

/** @throws Error for a longer file */
function keyFileBytes(file: string): Buffer {
  const bytes = Buffer.alloc(largestKeyFile + 1)
  const handle = openSync(file, 'r')
  try {
    let length = 0
    for (;;) {
      const read = readSync(handle, bytes, length, bytes.length - length, null)
      length += read
      if (length > largestKeyFile) throw new Error('it has more than 1 MiB; write one key per line')
      if (read === 0) return bytes.subarray(0, length)
    }
  } finally {
    closeSync(handle)
  }
}

function isKey(line: string): boolean {
  return line !== '' && !line.startsWith('#')
}

/** A pipe can be read once; reading it again may block forever. */
function assertReadAgain(file: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined || found.isFile() || found.isDirectory()) return
  throw invalid(`${file} is not a regular file, so it cannot be read again.`)
}

/** A server that can listen. */
interface ReadyServer {
  readonly server: ServerShell
  /** What the environment names, or the default. */
  readonly port: number
  /** Printed before the address. */
  readonly lines: readonly string[]
  readonly facts: EntrypointFacts
  readonly check: RowCheck
}

/**
 * Opens the port of a server, and prints what is served where.
 *
 * @param release - ends what the server runs on, when it has closed or cannot listen
 */
export async function openPort(
  { host, port, keys }: ServePlan,
  release: () => Promise<void>,
  create: () => Promise<ReadyServer>,
): Promise<ServedEntrypoint & { readonly port: number }> {
  try {
    const { server, port: usual, lines, facts, check } = await create()
    followKeyFile(server, keys.file)
    const place = { port: port ?? usual, host, auth: keys.areRequired }
    const listening = await listen(server, place)
    const closed = listening.closed.then(release)
    closed.catch(() => {})
    const key = server.requiresKey ? 'with a bearer key' : 'open, no key required'
    printOut(`${[...lines, `Listening on ${listening.url} (${key})`].join('\n')}\n`)
    return {
      url: listening.url,
      port: listening.port,
      facts,
      check,
      closed,
      close: async () => {
        await listening.close()
        await closed
      },
    }
  } catch (error) {
    await release()
    throw error
  }
}

/** Listens until the end signal of the command, or a signal of the process, closes the server. */
export async function listen(
  app: ServableApp,
  { port, host, auth = false }: { port: number; host: string; auth?: boolean },
): Promise<ListeningServer> {
  const signal = endSignal()
  return serve(app, {
    port,
    host,
    allowUnauthenticated: !auth,
    signal,
    handleSignals: signal === undefined,
  })
}

/**
 * Opens a port and closes it again. A worker does so before it takes rollouts, which it would lose if it could not listen later.
 *
 * @throws what {@link listen} throws
 */
export async function tryPort({ port, host }: { port: number; host: string }): Promise<void> {
  const app: ServableApp = {
    fetch: async () => new Response(null, { status: 503 }),
    requiresKey: false,
    logger: silentLogger,
    drain: async () => {},
  }
  const opened = await serve(app, { port, host, allowUnauthenticated: true, handleSignals: false })
  await opened.close()
}

/** The log of a command, on its stderr. */
export function commandLogger(level: LogFlags['logLevel']): Logger {
  const output = standardError()
  // The log of the process is written without blocking when its reader stops reading.
  return createStderrLogger({ level, ...(output === process.stderr ? {} : { output }) })
}
