import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { temporaryFolder } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { commandLines, isHosted } from '../repository/command-line.ts'
import { blocksOf, linkPackages } from '../repository/documents.ts'
import { root } from './command.ts'

const exec = promisify(execFile)

/** What the reader has made before the page begins. */
const pages = [
  { document: 'docs/quickstart.md', workspace: 'an empty folder' },
  { document: 'docs/workflows.md', workspace: 'a new workspace' },
  { document: 'docs/graders.md', workspace: 'a new workspace' },
  { document: 'docs/datasets.md', workspace: 'a new workspace' },
  { document: 'docs/evaluation.md', workspace: 'a new workspace' },
]

it.each(pages)(
  'what $document shows runs in $workspace, from top to bottom',
  async ({ document, workspace }) => {
    const folder = await temporaryFolder()
    linkPackages(folder)
    const env = { ...process.env, PATH: `${packageManagers(folder)}:${process.env['PATH']}` }
    const bash = async (script: string, cwd: string): Promise<string> => {
      const { stdout, stderr } = await exec('bash', ['-euxo', 'pipefail', '-c', script], {
        cwd,
        env,
      })
      return stdout + stderr
    }
    let place = folder
    if (workspace === 'a new workspace') {
      await bash('npm create @osmosis@latest my-agent -- --framework openai-agents --yes', folder)
      place = path.join(folder, 'my-agent')
    }
    for (const { file, text } of blocksOf(document, 'ts', 'toml', 'jsonl', 'csv')) {
      if (file === undefined) continue
      mkdirSync(path.dirname(path.join(place, file)), { recursive: true })
      writeFileSync(path.join(place, file), text)
    }
    const commands = blocksOf(document, 'bash').flatMap(({ text }) => commandLines(text))
    const script = commands.filter(hasEverything).map(untilItListens).join('\n')
    const printed = oneSpace(await bash(script, place))

    const promised = blocksOf(document, 'text').flatMap(({ text }) => text.trim().split('\n'))
    expect(promised.filter((line) => !printed.includes(oneSpace(line)))).toEqual([])
  },
)

/** Whether a command needs neither the hosted platform nor a model: those are parsed elsewhere. */
function hasEverything(command: string): boolean {
  const [, words = ''] = /^npx osmosis (.*)/.exec(command) ?? []
  return !isHosted(words.split(' ')) && !/--base-url|--model/.test(words)
}

/** What serves is stopped with Ctrl-C as soon as it says where. */
function untilItListens(command: string): string {
  return /osmosis (?:serve|eval view (?!.*--export))/.test(command)
    ? `until_it_listens ${command}`
    : command
}

function oneSpace(text: string): string {
  return text.replaceAll(/ +/g, ' ').trim()
}

/** A folder with package managers that find everything installed already, from the sources here. */
function packageManagers(folder: string): string {
  const bin = path.join(folder, 'bin')
  const create = path.join(root, 'packages/create/src/bin.ts')
  const write = (name: string, lines: readonly string[]): void =>
    writeFileSync(path.join(bin, name), ['#!/usr/bin/env bash', ...lines].join('\n'), {
      mode: 0o755,
    })
  mkdirSync(bin)
  write('npx', [`exec ${path.join(root, 'node_modules/.bin')}/"$@"`])
  write('until_it_listens', [
    'printed=$(mktemp)',
    '"$@" > "$printed" 2>&1 & pid=$!',
    'until grep -q http:// "$printed"; do kill -0 $pid; sleep 0.1; done',
    'kill -INT $pid; wait $pid || true; cat "$printed"',
  ])
  write('npm', [
    'case $1 in',
    'install) ;;',
    'create) shift 2; folder=$1; shift 2',
    `"${process.execPath}" ${create} "$folder" "$@" --no-install --no-git`,
    `ln -s ${path.join(folder, 'node_modules')} "$folder/node_modules" ;;`,
    'run) exec node --run "$2" ;;',
    '*) exec node --run "$1" ;;',
    'esac',
  ])
  return bin
}
