import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'

import { freePort } from '../free-port.ts'

/** What a server was made of. */
export interface ModelServerFacts {
  readonly version: string
  readonly options: Readonly<Record<string, unknown>>
}

/** A llama.cpp server in a process of its own, with a model that calls tools. Its port is open. */
export interface ModelServer extends AsyncDisposable {
  /** Base URL, without `/chat/completions`. It answers 503 until the model is loaded. */
  readonly url: string
  /** The packages that serve, and the settings that answers depend on. */
  readonly facts: ModelServerFacts
  /** What it has logged so far. */
  readonly log: string
  /** Lets a server load its model that was started with `hold`. */
  release(): void
  /**
   * Resolves when `/health` says that the model is loaded.
   *
   * @throws Error with its log when it ends before
   */
  ready(): Promise<void>
  /** Kills it at once, as the system does when memory runs out. Safe to call again. */
  kill(): Promise<void>
}

/** The only key that a {@link ModelServer} accepts. */
export const modelServerKey = 'key'
/** The name of its model. */
export const modelServerModel = 'SmolLM2-135M-Instruct.Q4_1'

const script = path.join(import.meta.dirname, 'model_server.py')
const template = path.join(import.meta.dirname, 'chat-template.jinja')
/** Tokens: enough for the conversations of the tests, and soon full. */
const contextTokens = 2048

let foundPython: { readonly path: string | undefined } | undefined

/**
 * The Python that runs it; undefined where `.ci/python-environment model-server` was never called. It is looked for once, because commands
 * that tests run may have another home.
 */
export function pythonOfModelServer(): string | undefined {
  foundPython ??= { path: findPython() }
  return foundPython.path
}

function findPython(): string | undefined {
  const file = path.resolve(import.meta.dirname, '../../../.ci/python-environment')
  const found = spawnSync('bash', [file, 'model-server', '--find'], { encoding: 'utf8' })
  return found.status === 0 ? found.stdout.trim() : undefined
}

/**
 * Starts one, which the caller ends. It answers already while the model is loaded: `ready()` says when that has ended.
 *
 * @param options.hold - whether the model is loaded only after `release()`, or 45 seconds
 * @param options.port - default: a free one
 */
export async function startModelServer({
  hold = false,
  port: givenPort,
}: { readonly hold?: boolean; readonly port?: number } = {}): Promise<ModelServer> {
  const python = pythonOfModelServer()
  if (python === undefined) {
    throw new Error(
      "These tests need llama.cpp's server and a model: run bash .ci/python-environment model-server.",
    )
  }
  const port = givenPort ?? (await freePort())
  const settings = [String(port), String(contextTokens), template, modelServerKey]
  // Its stdin is a pipe that closes when this process ends, however it does; then the server ends, too.
  const child = spawn(python, [script, ...settings, ...(hold ? ['hold'] : [])])
  const exit = once(child, 'close')
  let log = ''
  child.stdin.on('error', () => {})
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text))
  const end = (): string | undefined =>
    child.signalCode ?? (child.exitCode === null ? undefined : `code ${child.exitCode}`)
  const throwIfEnded = (): void => {
    if (end() === undefined) return
    throw new Error(`llama.cpp's server ended with ${end()} before its model was loaded:\n${log}`)
  }
  const [line] = (await Promise.race([once(child.stdout, 'data'), exit])) as unknown[]
  throwIfEnded()
  const facts = JSON.parse(String(line)) as ModelServerFacts
  const url = `http://127.0.0.1:${port}`
  while ((await healthOf(url)) === undefined) {
    throwIfEnded()
    await setTimeout(20)
  }
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exit
  }
  return {
    url: `${url}/v1`,
    facts,
    get log() {
      return log
    },
    release: () => void child.stdin.write('\n'),
    async ready() {
      while ((await healthOf(url)) !== 200) {
        throwIfEnded()
        await setTimeout(20)
      }
    },
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

/** The status; undefined while nothing listens there. */
async function healthOf(url: string): Promise<number | undefined> {
  try {
    const answer = await fetch(`${url}/health`)
    await answer.body?.cancel()
    return answer.status
  } catch {
    return undefined
  }
}
