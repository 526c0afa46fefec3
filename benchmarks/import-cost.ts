// What importing a package costs, and what an adapter costs beyond its framework. Measured on
// packages as they are published, each in a process of its own, all in one run: the figures of one
// machine compare with one another only.
//
//   npx -y pnpm@12 run benchmark:imports
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { styleText } from 'node:util'

import { cleanUp, npmInstall, packAll } from '../test/packed/workspace.ts'

const rounds = 15

/** What is imported, and what of it is not ours. */
interface Measured {
  name: string
  framework?: string
  /** Milliseconds that may be ours. */
  goalMs: number
}

const measured: Measured[] = [
  { name: '@osmosis/core', goalMs: 60 },
  { name: '@osmosis/openai-agents', framework: '@openai/agents', goalMs: 15 },
  { name: '@osmosis/strands', framework: '@strands-agents/sdk', goalMs: 15 },
  { name: '@osmosis/ai-sdk', framework: 'ai', goalMs: 15 },
]

const packed = await packAll()
const folder = await npmInstall([
  ...measured.map(({ name }) => packed.get(name)?.tarball ?? name),
  ...measured.flatMap(({ framework }) =>
    framework ? [`${framework}@${installedVersion(framework)}`] : [],
  ),
  'zod',
])

// Whoever uses an adapter has core in the process as well, so the baseline has it too.
const programs = new Map<string, string>()
for (const { name, framework } of measured) {
  programs.set(name, importing('@osmosis/core', ...(framework ? [framework] : []), name))
  if (framework) programs.set(framework, importing('@osmosis/core', framework))
}
programs.set('nothing', 'performance.now()')
programs.set('@osmosis/core', importing('@osmosis/core'))

const times = new Map([...programs.keys()].map((name) => [name, [] as number[]]))
for (let round = 0; round < rounds; round += 1) {
  // Round by round, so that a slow moment of the machine meets all of them.
  for (const [name, program] of programs) times.get(name)?.push(run(program))
}

const rows = measured.map(({ name, framework, goalMs }) => {
  const total = median(name)
  const baseline = framework ? median(framework) : median('nothing')
  return { name, totalMs: round1(total), ownMs: round1(total - baseline), goalMs }
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

function run(program: string): number {
  const args = ['--input-type=module', '--eval', program]
  const output = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
  return Number(output) || 0
}

function median(name: string): number {
  const sorted = (times.get(name) ?? []).toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

function round1(value: number): number {
  return Math.round(value * 10) / 10
}

function installedVersion(framework: string): string {
  const adapter = measured.find((entry) => entry.framework === framework)?.name.split('/')[1] ?? ''
  const manifest = path.join(
    import.meta.dirname,
    '../packages',
    adapter,
    'node_modules',
    framework,
    'package.json',
  )
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
