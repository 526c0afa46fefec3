import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'

import { OsmosisError, errorMessage } from '@osmosis/core'
import { endWhenBlocked } from '@osmosis/server/execution'

import {
  endSignal,
  printError,
  inCommandContext,
  environment,
  workingFolder,
} from './command-context.ts'
import { interruptedExitCode } from './exit-codes.ts'
import { printMessage, shortLine } from './terminal-text.ts'

/**
 * Calls `use` with a resource and always closes it afterwards. It replaces `await using`, which Node.js 22
 * lacks.
 */
export async function closing<R extends AsyncDisposable | undefined, T>(
  resource: R,
  use: (resource: R) => Promise<T>,
): Promise<T> {
  try {
    return await use(resource)
  } finally {
    await resource?.[Symbol.asyncDispose]()
  }
}

/**
 * What started this process asks of it: the first argument, which is JSON. The arguments leave the process with it, because a
 * program that user code imports may read arguments of its own from there.
 */
export function takeOrder(): unknown {
  const [order = '{}'] = process.argv.splice(2)
  return JSON.parse(order)
}

/** A signal that Ctrl-C (or SIGTERM) aborts. A second one ends the process immediately. */
export function abortOnInterrupt(): { signal: AbortSignal; release: () => void } {
  const abort = new AbortController()
  const ended = new AbortController()
  const given = endSignal()
  const onSignal = inCommandContext((): void => {
    if (abort.signal.aborted) process.exit(interruptedExitCode)
    printError('\nStopping: cancelling running work. Press Ctrl-C again to stop immediately.\n')
    abort.abort(new OsmosisError('cancelled', 'interrupted'))
    if (given !== undefined) return
    endWhenBlocked(ended.signal, interruptedExitCode, () => {
      printError('error: The file system does not answer.\n')
    })
  })
  if (given !== undefined) {
    if (given.aborted) onSignal()
    else given.addEventListener('abort', onSignal, { once: true })
    return { signal: abort.signal, release: () => given.removeEventListener('abort', onSignal) }
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: abort.signal,
    release: () => {
      ended.abort()
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}

/**
 * Runs `work`, and prints unhandled rejections of user code as warnings. Without this they would end the
 * process and lose the work done so far.
 */
export async function survivingStrayRejections<T>(work: () => Promise<T>): Promise<T> {
  const onRejection = inCommandContext(warn)
  process.on('unhandledRejection', onRejection)
  try {
    return await work()
  } finally {
    process.off('unhandledRejection', onRejection)
  }
}

function warn(reason: unknown): void {
  const message = shortLine(errorMessage(reason))
  printMessage(`warning: unhandled rejection in user code: ${message}`)
}

/**
 * Limits the memory of commands that process many rollouts: V8 would reserve 128 MiB for short-lived
 * objects, and 16 MiB are enough.
 */
export function keepYoungGenerationSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
}

/**
 * For commands that run rollouts. V8 predicts by allocation site which objects live long, and allocates those
 * in the old generation. It predicts that for many objects of a rollout, because they live as long as their
 * rollout. They and everything that they refer to, such as conversations, then stay until a full collection:
 * with 64 concurrent rollouts ten times as much memory gets old, and collections of the young generation take
 * twice as long.
 */
export function disablePretenuring(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

const openers: Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}

/**
 * Opens a URL with a secret. Other users of this machine see the arguments of a browser, so that it gets a file that
 * only this user can read and that leads to the URL. The caller removes it. Does nothing where no file can be written: callers also
 * print the URL.
 */
export async function openBrowserAt(url: string): Promise<AsyncDisposable | undefined> {
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-')).catch(() => undefined)
  if (folder === undefined) return undefined
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  const file = path.join(folder, 'open.html')
  const link = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  try {
    await writeFile(file, `<meta http-equiv="refresh" content="0;url=${link}">\n`, { mode: 0o600 })
  } catch {
    await remove()
    return undefined
  }
  openBrowser(pathToFileURL(file).href)
  return { [Symbol.asyncDispose]: remove }
}

/** Opens a URL. Does nothing on a machine without a browser: callers also print the URL. */
export function openBrowser(url: string): void {
  const [command, ...args] = openers[process.platform] ?? ['xdg-open']
  const child = spawn(command, [...args, url], {
    cwd: workingFolder(),
    env: environment(),
    stdio: 'ignore',
    detached: true,
  })
  child.on('error', () => {})
  child.unref()
}
