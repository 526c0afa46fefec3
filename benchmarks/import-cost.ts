// What importing a package costs, and what an adapter costs beyond its framework. Measured on
// packages as they are published, each in a process of its own, all in one run: the figures of one
// machine compare with one another only.
//
//   npx -y pnpm@12 run bench imports
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { styleText } from 'node:util'

import { cleanUp, npmInstall, packAll } from '../test/packed/workspace.ts'
import { rounded } from './figures.ts'

const rounds = 15

/** A package that is imported, and the framework that it needs. */
interface Measured {
  name: string
  framework?: string
  /** What a program with the framework has loaded; default: the framework. */
  loads?: string
  /** Packages of ours that it depends on beside core. */
  needs?: readonly string[]
  /** Maximum cost of our package. Milliseconds. */
  goalMs: number
}

const measured: Measured[] = [
  { name: '@osmosis/core', goalMs: 45 },
  { name: '@osmosis/openai-agents', framework: '@openai/agents', goalMs: 40 },
  { name: '@osmosis/strands', framework: '@strands-agents/sdk', goalMs: 40 },
  { name: '@osmosis/ai-sdk', framework: 'ai', goalMs: 40 },
  {
    name: '@osmosis/langchain',
    framework: '@langchain/core',
    // The entry of the package has nothing in it; each chat model is a class of this one.
    loads: '@langchain/core/language_models/chat_models',
    goalMs: 40,
  },
  { name: '@osmosis/mastra', framework: '@mastra/core', needs: ['@osmosis/ai-sdk'], goalMs: 40 },
  { name: '@osmosis/google-adk', framework: '@google/adk', goalMs: 40 },
  { name: '@osmosis/pi', framework: '@earendil-works/pi-agent-core', goalMs: 40 },
]

const packed = await packAll()
const core = tarballOf('@osmosis/core')

interface Program {
  folder: string
  source: string
  times: number[]
}

const programs = new Map<string, Program>()
for (const { name, framework, loads = framework, needs = [] } of measured) {
  // One folder for each, because the dependencies of the frameworks may conflict.
  const specifiers = framework
    ? [tarballOf(name), ...needs.map(tarballOf), `${framework}@${pinnedVersion(name, framework)}`]
    : []
  const folder = await npmInstall([core, ...specifiers])
  // A process that uses an adapter has loaded core as well, so the baseline includes core.
  const before = loads ? ['@osmosis/core', loads] : []
  programs.set(`before ${name}`, { folder, source: importing(...before), times: [] })
  programs.set(name, { folder, source: importing(...before, name), times: [] })
}

for (let round = 0; round < rounds; round += 1) {
  // Round by round, so that a slow moment of the machine affects all of them.
  for (const { folder, source, times } of programs.values()) times.push(run(folder, source))
}

const rows = measured.map(({ name, goalMs }) => {
  const total = fastest(name)
  return {
    name,
    totalMs: rounded(total, 1),
    ownMs: rounded(total - fastest(`before ${name}`), 1),
    goalMs,
  }
})
for (const { name, totalMs, ownMs, goalMs } of rows) {
  const verdict = ownMs <= goalMs ? styleText('green', 'ok') : styleText('red', 'over')
  console.log(
    `${name.padEnd(24)} ${String(totalMs).padStart(7)} ms in all, ${String(ownMs).padStart(6)} ms ours (goal ${goalMs})  ${verdict}`,
  )
}
console.log(JSON.stringify({ rounds, node: process.version, rows }))
await cleanUp()

function importing(...names: string[]): string {
  const imports = names.map((name) => `await import(${JSON.stringify(name)})`).join(';')
  return `const start = performance.now(); ${imports}; console.log(performance.now() - start)`
}

function run(folder: string, source: string): number {
  const args = ['--input-type=module', '--eval', source]
  return Number(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }))
}

/** Whatever else runs on the machine only makes a round slower. */
function fastest(name: string): number {
  return Math.min(...(programs.get(name)?.times ?? []))
}

function tarballOf(name: string): string {
  const found = packed.get(name)
  if (found === undefined) throw new Error(`${name} was not packed`)
  return found.tarball
}

/** The version that the adapter is developed with. */
function pinnedVersion(adapter: string, framework: string): string {
  const folder = path.join(import.meta.dirname, '../packages', adapter.replace('@osmosis/', ''))
  const manifest = readFileSync(
    path.join(folder, 'node_modules', framework, 'package.json'),
    'utf8',
  )
  return (JSON.parse(manifest) as { version: string }).version
}
