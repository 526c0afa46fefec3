import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  temporaryFolder,
  usage,
} from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { commandLines, isHosted } from '../repository/command-line.ts'
import { blocksOf, linkPackages, read, section } from '../repository/documents.ts'
import { root } from '../examples/command.ts'

const exec = promisify(execFile)

/** What the reader has made before the page, or a part of it, begins. */
const pages: { document: string; part?: string; workspace: string }[] = [
  { document: 'README.md', part: 'Your agent as a rollout', workspace: 'a new workspace' },
  { document: 'docs/quickstart.md', workspace: 'an empty folder' },
  { document: 'docs/workflows.md', workspace: 'a new workspace' },
  { document: 'docs/graders.md', workspace: 'a new workspace' },
  { document: 'docs/evaluation.md', workspace: 'a new workspace' },
  { document: 'docs/datasets.md', workspace: 'a new workspace' },
  { document: 'docs/agent-loop.md', workspace: 'an empty folder' },
]

it.each(pages)(
  'what $document shows runs in $workspace, from top to bottom',
  async ({ document, part, workspace }) => {
    const folder = await temporaryFolder()
    linkPackages(folder)
    const env = { ...process.env, PATH: `${packageManagers(folder)}:${process.env['PATH']}` }
    const bash = async (script: string, cwd: string): Promise<string> => {
      const options = { cwd, env }
      const { stdout, stderr } = await exec('bash', ['-euxo', 'pipefail', '-c', script], options)
      return stdout + stderr
    }
    let place = folder
    if (workspace === 'a new workspace') {
      await bash('npm create @osmosis@latest my-agent -- --framework openai-agents --yes', folder)
      place = path.join(folder, 'my-agent')
    }
    const shown = part === undefined ? read(document) : section(read(document), part)
    const blocks = blocksOf(document, 'ts', 'toml', 'jsonl', 'csv', 'bash', 'text').filter(
      ({ text }) => shown.includes(text),
    )
    for (const { file, text } of blocks) {
      if (file === undefined) continue
      mkdirSync(path.dirname(path.join(place, file)), { recursive: true })
      writeFileSync(path.join(place, file), text)
    }
    const { url } = await startPolicyEndpoint((response, _n, { body }) =>
      body.stream === true
        ? sendStream(response, answerStream('It is 8.'))
        : sendJson(response, 200, answer),
    )
    const script = blocks
      .flatMap(({ language, text }) => (language === 'bash' ? commandLines(text) : []))
      .filter(hasEverything)
      .map((command) => untilItListens(command.replaceAll('http://127.0.0.1:8000/v1', url)))
    const printed = oneSpace(await bash(script.join('\n'), place))

    const promised = blocks.flatMap(({ language, text }) =>
      language === 'text' ? text.trim().split('\n') : [],
    )
    expect(promised.filter((line) => !printed.includes(oneSpace(line)))).toEqual([])
  },
)

const answer = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'policy',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'It is 8.' }, finish_reason: 'stop' },
  ],
  usage,
}

/**
 * Whether a command needs nobody but an endpoint: neither the hosted platform nor a provider nor a
 * person, and not this repository. All others are parsed elsewhere.
 */
function hasEverything(command: string): boolean {
  const [, words = ''] = /^npx osmosis (.*)/.exec(command) ?? []
  const needs = /--register|--interactive|--model \S+(?!.*--base-url)(?<!--base-url.*)/
  return !isHosted(words.split(' ')) && !needs.test(words) && !command.startsWith('npx -y')
}

/** What serves gets a port that is free, and SIGTERM as soon as it says where. */
function untilItListens(command: string): string {
  if (!/osmosis (?:serve|eval view (?!.*--export))/.test(command)) return command
  return `until_it_listens ${command.replace(/ --port \d+/, '')} --port 0`
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
  write('npx', [
    'export npm_config_user_agent=npm',
    `exec ${path.join(root, 'node_modules/.bin')}/"$@"`,
  ])
  write('until_it_listens', [
    'printed=$(mktemp)',
    '"$@" > "$printed" 2>&1 & pid=$!',
    'until grep -q http:// "$printed" || ! kill -0 $pid; do sleep 0.1; done',
    'kill -TERM $pid && cat "$printed"; wait $pid || true',
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
