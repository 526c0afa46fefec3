// Runs a benchmark. Each one prints a table and a line of JSON; README.md says what they show.
//
//   npx -y pnpm@12 run bench                          lists them
//   npx -y pnpm@12 run bench <name> [what it takes]
import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** Files by name. */
const benchmarks: Readonly<Record<string, string>> = {
  imports: 'import-cost.ts',
  calls: 'policy-call.ts',
  conversations: 'long-conversations.ts',
  server: 'rollout-server.ts',
  frameworks: 'frameworks.ts',
  workers: 'workers.ts',
  distributed: 'distributed.ts',
  errors: 'long-errors.ts',
  training: 'training-step.ts',
  engine: 'eval-engine.ts',
  store: 'run-store.ts',
  crashes: 'eval-crashes.ts',
  statistics: 'eval-statistics.ts',
  tables: 'eval-tables.ts',
  viewer: 'viewer.ts',
}

const [name = '', ...rest] = process.argv.slice(2)
const file = Object.hasOwn(benchmarks, name) ? benchmarks[name] : undefined
if (file === undefined) {
  if (name !== '') console.error(`There is no benchmark ${JSON.stringify(name)}.`)
  console.log(`npx -y pnpm@12 run bench <name>, one of: ${Object.keys(benchmarks).join(', ')}`)
  process.exit(name === '' ? 0 : 2)
}
// What an import costs is that of the packages as they are published.
if (name === 'imports') {
  execFileSync('turbo', ['run', 'build'], {
    cwd: path.resolve(import.meta.dirname, '..'),
    stdio: 'inherit',
  })
}
const program = path.join(import.meta.dirname, file)
process.argv = [process.execPath, program, ...rest]
await import(program)
