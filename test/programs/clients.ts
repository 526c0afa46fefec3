// Installs the frameworks whose clients docs/frameworks/any-framework.md points at the policy, with the commands of
// that page, and runs one rollout of each against a scripted policy.
//
//   node test/programs/clients.ts [voltagent genkit …]
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { askOnce } from './ask-once.ts'
import { installIn } from './install.ts'

const root = path.resolve(import.meta.dirname, '../..')
const guide = readFileSync(path.join(root, 'docs/frameworks/any-framework.md'), 'utf8')

/** A word of the framework's install command, by which it is found in the page. */
const packages: Record<string, string> = {
  beeai: 'beeai-framework',
  'cloudflare-agents': 'agents',
  genkit: 'genkit',
  'tanstack-ai': '@tanstack/ai',
  voltagent: '@voltagent/core',
}

// A program that runs changes TMPDIR.
const parent = tmpdir()
const given = process.argv.slice(2)
for (const name of given.length > 0 ? given : Object.keys(packages)) {
  const folder = mkdtempSync(path.join(parent, `osmosis-${name}-`))
  try {
    await installIn(folder, [...installCommand(name), 'typescript', '@types/node'])
    cpSync(path.join(import.meta.dirname, 'clients', name), folder, { recursive: true })
    await checkTypes(folder)
    const temporary = path.join(folder, 'tmp')
    mkdirSync(temporary)
    const textBesideCalls = name !== 'genkit'
    await askOnce(path.join(folder, 'after.ts'), temporary, { textBesideCalls })
    console.log(`${name}: passed`)
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}
// Telemetry of the frameworks may keep the process.
process.exit(0)

function installCommand(name: string): string[] {
  const commands = [...guide.matchAll(/^npm install (.*)$/gm)].map(([, words = '']) =>
    words.split(' '),
  )
  const command = commands.find((words) => words.includes(packages[name] ?? ''))
  if (command !== undefined) return command
  throw new Error(`Expected one of ${Object.keys(packages).join(', ')}, got ${name}.`)
}

async function checkTypes(folder: string): Promise<void> {
  const settings = { extends: path.join(root, 'tsconfig.base.json'), include: ['*.ts'] }
  const compilerOptions = { noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true }
  writeFileSync(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({ ...settings, compilerOptions }),
  )
  await promisify(execFile)(path.join(root, 'node_modules/.bin/tsc'), ['-p', '.'], { cwd: folder })
}
