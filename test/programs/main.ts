// Installs a program that is too large for the workspace, and runs it as an agent against a scripted policy:
// the workspace that `npm create` makes of it, the program of its guide, 204 rollouts in two workers, and a cancel.
//
//   node test/programs/main.ts codex | claude-agent-sdk
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

import { frameworks } from '@osmosis/create'

import { askOnce, reachLimitOfTurns } from './ask-once.ts'
import { installIn } from './install.ts'

const root = path.resolve(import.meta.dirname, '../..')
const name = programOf(process.argv[2])
const parent = mkdtempSync(path.join(tmpdir(), 'osmosis-programs-'))
const temporary = path.join(parent, 'tmp')
mkdirSync(temporary)
const env = { ...process.env, TMPDIR: temporary, HOME: path.join(parent, 'home') }
const bin = path.join(root, 'packages/cli/src/bin.ts')
const workspace = path.join(parent, 'shop')
const started: ChildProcess[] = []

try {
  await step('install', install)
  await step('the workspace of npm create', makeWorkspace)
  await step('types', checkTypes)
  await step('the program of the guide', async () => {
    await askOnce(path.join(parent, 'guide/after.ts'), temporary)
  })
  if (name === 'claude-agent-sdk') {
    await step('its limit of turns', async () => {
      await reachLimitOfTurns(path.join(parent, 'guide/after.ts'))
    })
  }
  await step('an evaluation, with a failing transcript to read', evaluate)
  await step('204 rollouts, 8 at a time, in two workers', async () => evaluateOnServer(true))
  await step('a cancel in the middle', async () => evaluateOnServer(false))
  console.log('passed')
} finally {
  for (const one of started) one.kill('SIGKILL')
  rmSync(parent, { recursive: true, force: true, maxRetries: 5 })
}

function programOf(given: string | undefined): 'codex' | 'claude-agent-sdk' {
  if (given === 'codex' || given === 'claude-agent-sdk') return given
  throw new Error('Usage: node test/programs/main.ts codex | claude-agent-sdk')
}

async function step(what: string, run: () => Promise<void>): Promise<void> {
  const since = performance.now()
  await run()
  await expectNothingLeft(what)
  console.log(`${what}: ${((performance.now() - since) / 1000).toFixed(1)} s`)
}

async function install(): Promise<void> {
  const { dependencies } = frameworks[name]
  const file = path.join(root, 'packages/create/templates/versions.json')
  const versions = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
  const wanted = ['typescript', '@types/node', ...dependencies]
    .filter((one) => !one.startsWith('@osmosis/'))
    .map((one) => `${one}@${versions[one]?.replace('^', '')}`)
  await installIn(parent, wanted)
}

async function makeWorkspace(): Promise<void> {
  const create = path.join(root, 'packages/create/src/bin.ts')
  await node([create, 'shop', '--framework', name, '--no-install', '--no-git'], parent)
}

async function checkTypes(): Promise<void> {
  cpSync(path.join(import.meta.dirname, name), path.join(parent, 'guide'), {
    recursive: true,
  })
  const settings = { extends: path.join(workspace, 'tsconfig.json'), include: ['guide'] }
  writeFileSync(path.join(parent, 'tsconfig.json'), JSON.stringify(settings))
  const tsc = path.join(root, 'node_modules/.bin/tsc')
  for (const cwd of [workspace, parent]) await promisify(execFile)(tsc, ['-p', '.'], { cwd })
}

async function evaluate(): Promise<void> {
  await osmosis('eval', 'run', 'configs/eval/shop.toml', '--name', 'first')
  expectCounts('first', 48)
  const shown = await osmosis('eval', 'show', 'first', '11.1')
  if (!shown.includes('#### 13.25') || !shown.includes('reward 0, not passed')) {
    throw new Error(`Attempt 11.1 should be a wrong answer, and is:\n${shown}`)
  }
}

async function evaluateOnServer(toItsEnd: boolean): Promise<void> {
  const serve = ['serve', '-m', 'rollouts/shop/main.ts', '--workers', '2', '--port', '0']
  const server = child(serve)
  const url = await listeningUrl(server)
  const run = `on-server-${toItsEnd}`
  const flags = ['--name', run, '--server', url, '--n', '17']
  const evaluation = child(['eval', 'run', 'configs/eval/shop.toml', ...flags])
  const ended = once(evaluation, 'close')
  if (!toItsEnd) {
    await sleep(10_000)
    if (workFolders() === 0) throw new Error('No rollout was running when it was to be cancelled.')
    evaluation.kill('SIGINT')
  }
  await ended
  if (toItsEnd) expectCounts(run, 204)
  server.kill('SIGTERM')
  await once(server, 'close')
}

function expectCounts(run: string, count: number): void {
  const file = path.join(workspace, '.osmosis/evals', run, 'metrics.json')
  const { summary } = JSON.parse(readFileSync(file, 'utf8')) as {
    summary: { graded: number; failed: number; passed: number }
  }
  const { graded, failed, passed } = summary
  if (graded === count && failed === 0 && passed > 0 && passed < count) return
  throw new Error(
    `Expected ${count} graded rollouts, some of them passed, got ${JSON.stringify(summary)}`,
  )
}

/** Fails if a process or a work folder of this run is left after a few seconds. */
async function expectNothingLeft(what: string): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const processes = await promisify(execFile)('pgrep', ['-f', parent]).then(
      ({ stdout }) => stdout.trim().split('\n').length,
      () => 0,
    )
    if (processes === 0 && workFolders() === 0) return
    if (tries === 20) {
      throw new Error(`${what}: ${processes} processes and ${workFolders()} folders are left.`)
    }
    await sleep(250)
  }
}

function workFolders(): number {
  return readdirSync(temporary).filter((entry) => entry.startsWith('osmosis-work-')).length
}

async function osmosis(...args: string[]): Promise<string> {
  return node([bin, ...args], workspace)
}

async function node(args: readonly string[], cwd: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd, env })
  return stdout
}

function child(args: readonly string[]): ChildProcess {
  const stdio = ['ignore', 'pipe', 'ignore'] as const
  const own = spawn(process.execPath, [bin, ...args], {
    cwd: workspace,
    env,
    stdio: [...stdio],
  })
  started.push(own)
  return own
}

async function listeningUrl(server: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = ''
    server.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text
      const [, url] = /Listening on (\S+)/.exec(printed) ?? []
      if (url !== undefined) resolve(url)
    })
    server.once('close', () => reject(new Error(`The server ended:\n${printed}`)))
  })
}
