import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { commandLines, flagNames, misuse, startsWithCommand } from './command-line.ts'
import { blocksOf, documents, read, root } from './documents.ts'

const { scripts } = JSON.parse(read('package.json')) as {
  readonly scripts: Readonly<Record<string, string>>
}
const create = readFileSync(path.join(root, 'packages/create/src/main.ts'), 'utf8')
const workspace = create + readFileSync(path.join(root, 'packages/create/src/manifest.ts'), 'utf8')

/** Of package managers, Vitest and scripts here. */
const foreign = [
  '--save-dev',
  '--allow-build',
  '--file',
  '--isolate',
  '--no-allocation-site-pretenuring',
  '--no-git-checks',
  '--project',
  '--repo',
  '--test',
  '--torch',
  '--times',
  '--update',
]
/** Of Miles, vLLM and TensorBoard. */
const trainers = [
  '--generation-config',
  '--logdir',
  '--max-lora-rank',
  '--max-seq-len',
  '--rollout-batch-size',
  '--rollout-max-response-len',
  '--tito-model',
  '--tool-call-parser',
  '--use-session-server',
]
const known = new Set([
  ...flagNames(),
  ...(create.match(/--[a-z-]+/g) ?? []),
  ...foreign,
  ...trainers,
])

/** Commands of the shell, which this repository has no say in. */
const shell =
  /^(?:cd|export|alias|bash \.ci\/run|curl|docker|git|jq|cat|kubectl|ls|node|open|openssl|sed|uv run)\b/

describe.each(documents)('%s', (document) => {
  it('shows commands that are there, with flags and values that they take', async () => {
    const wrong: string[] = []
    for (const { text, line } of blocksOf(document, 'bash', 'sh')) {
      for (const command of commandLines(text)) {
        const problem = await problemOf(command)
        if (problem !== undefined) wrong.push(`line ${line}: ${command}: ${problem}`)
      }
    }
    expect(wrong).toEqual([])
  })

  it('names commands that are there', async () => {
    const names = [...read(document).matchAll(/`(?:npx )?osmosis ((?:[a-z]+(?:-[a-z]+)* ?)+)/g)]
      .map(([, words = '']) => words.trim())
      .filter((words) => !startsWithCommand(words.split(' ')))
    expect(names).toEqual([])
  })

  it('names flags that are there', () => {
    const code = read(document).match(/`[^`\n]+`/g) ?? []
    const flags = code.flatMap((words) => words.match(/(?<=[`\s])--[a-z][a-z-]+/g) ?? [])
    expect(flags.filter((flag) => !known.has(flag))).toEqual([])
  })
})

async function problemOf(command: string): Promise<string | undefined> {
  const words = (command.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).map((word) =>
    word.replaceAll(/^["']|["']$/g, ''),
  )
  const [name, ...others] = words[0] === 'npx' && words[1] === 'osmosis' ? words.slice(1) : words
  if (name === 'osmosis') return misuse(others)
  if (command.startsWith('npx -y pnpm@12 ')) return scriptProblem(words.slice(3))
  if (/^(?:npm|pnpm) create @osmosis/.test(command)) {
    const strange = words.filter((word) => word.startsWith('--') && word !== '--')
    return strange.every((flag) => create.includes(`  ${flag} `)) ? undefined : 'no such flag'
  }
  if (/^(?:npm|pnpm) (?:install|add) /.test(command)) return undefined // guides.test.ts
  const [, script] = /^npm (?:run )?(\w+)$/.exec(command) ?? []
  if (script !== undefined) {
    return workspace.includes(` ${script}: '`) ? undefined : 'no such script in a new workspace'
  }
  return shell.test(command) ? undefined : 'neither ours nor known'
}

/** A command of the root of this repository. */
async function scriptProblem(words: readonly string[]): Promise<string | undefined> {
  const [name = '', ...others] = ['run', 'exec'].includes(words[0] ?? '') ? words.slice(1) : words
  if (name === 'osmosis') return misuse(others)
  const isThere =
    name in scripts || name === 'install' || existsSync(path.join(root, 'node_modules/.bin', name))
  return isThere ? undefined : 'neither a script nor a command here'
}
