import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { readServerEnvironment } from '@osmosis/server'

import { fail, ok, warn, type CheckFinding } from '../command/findings.ts'
import { loadModule } from '../inputs/load-module.ts'

const gibibyte = 2 ** 30
/** Free space below which a check warns, and below which it fails. Bytes. */
const scarce = gibibyte
const tooLittle = gibibyte / 16

/** Checks what every command needs of the machine. */
export async function machineFindings(
  folder: string,
  environment: NodeJS.ProcessEnv,
): Promise<readonly CheckFinding[]> {
  return [await typeScriptFinding(), await portFinding(environment), await diskFinding(folder)]
}

/** Has syntax that Node.js alone does not support. */
const program = `enum Answer { Yes = 'yes' }\nexport const answer: string = Answer.Yes\n`

async function typeScriptFinding(): Promise<CheckFinding> {
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-doctor-'))
  try {
    const file = path.join(folder, 'probe.mts')
    await writeFile(file, program)
    const { answer } = await loadModule('probe', file)
    if (answer === 'yes') return ok('TypeScript', 'files are loaded without a build step')
    return fail('TypeScript', `A file was loaded, but exports ${String(answer)} instead of yes.`)
  } catch (error) {
    const advice = 'Remove node_modules and install again: tsx or esbuild is missing or damaged.'
    return fail('TypeScript', `TypeScript files cannot be loaded: ${errorMessage(error)}`, advice)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function portFinding(environment: NodeJS.ProcessEnv): Promise<CheckFinding> {
  try {
    const { port } = readServerEnvironment(environment)
    const problem = await listenOnce(port)
    if (problem === undefined) return ok('port', `${port} is free`)
    return warn(
      'port',
      `osmosis serve cannot listen on port ${port}: ${problem}`,
      'Pass --port <port> to it, or stop the program that listens. Evaluations use a free port.',
    )
  } catch (error) {
    return fail('port', errorMessage(error))
  }
}

async function listenOnce(port: number): Promise<string | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (error) => resolve(error.message))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(undefined)))
  })
}

async function diskFinding(folder: string): Promise<CheckFinding> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  const room =
    free >= gibibyte
      ? `${(free / gibibyte).toFixed(1)} GiB`
      : `${Math.floor(free / (gibibyte / 1024))} MiB`
  const text = `${room} are free in ${folder}`
  if (free >= scarce) return ok('disk', text)
  const advice =
    'Evaluations store transcripts in .osmosis/evals: remove old runs, or pass --output.'
  return free >= tooLittle ? warn('disk', text, advice) : fail('disk', text, advice)
}
