import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
} from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { openaiEvents } from '../../packages/models/test/stand-ins.ts'
import { root } from '../examples/command.ts'
import { commandLines } from '../repository/command-line.ts'
import { blocksOf, documents, read, section } from '../repository/documents.ts'
import { commandsOf, startReader, writeFiles, type Reader } from './reader.ts'

interface Page {
  readonly document: string
  /** Its only heading that is about this. */
  readonly part?: string
  /** What the reader has made before the page, or the part of it, begins. */
  readonly workspace: 'an empty folder' | 'a new workspace' | 'this repository'
  /** Another document, whose files the reader has. */
  readonly filesOf?: string
  /** A program of ours that the reader has written, and where; with the grader beside it. */
  readonly migrated?: { readonly program: string; readonly to: string }
  /** The runs that there are, by their names. */
  readonly runs?: readonly string[]
}

const pages: Page[] = [
  { document: 'README.md', part: 'From an empty folder', workspace: 'an empty folder' },
  { document: 'README.md', part: 'Your agent as a rollout', workspace: 'a new workspace' },
  { document: 'docs/quickstart.md', workspace: 'an empty folder' },
  {
    document: 'docs/migrating/README.md',
    workspace: 'an empty folder',
    migrated: {
      program: 'packages/openai-agents/test/migration/after.ts',
      to: 'rollouts/calculator/main.ts',
    },
  },
  { document: 'docs/workflows.md', workspace: 'a new workspace' },
  { document: 'docs/graders.md', workspace: 'a new workspace' },
  { document: 'docs/evaluation.md', workspace: 'a new workspace' },
  { document: 'docs/datasets.md', workspace: 'a new workspace' },
  { document: 'docs/agent-loop.md', workspace: 'an empty folder' },
  { document: 'docs/training/README.md', workspace: 'an empty folder' },
  { document: 'packages/create/README.md', workspace: 'an empty folder' },
  {
    document: 'packages/cli/README.md',
    workspace: 'a new workspace',
    filesOf: 'docs/agent-loop.md',
    runs: ['before', 'after'],
  },
  {
    document: 'packages/agent-loop/README.md',
    workspace: 'an empty folder',
    filesOf: 'docs/agent-loop.md',
  },
  { document: 'packages/models/README.md', workspace: 'a new workspace' },
  { document: 'packages/viewer/README.md', workspace: 'a new workspace', runs: ['my-run'] },
  ...documents
    .filter((document) => document.startsWith('examples/'))
    .map((document): Page => ({ document, workspace: 'this repository' })),
]

it.each(pages)('what $document shows runs in $workspace, from top to bottom', async (page) => {
  const { document, part } = page
  const shown = part === undefined ? read(document) : section(read(document), part)
  const blocks = blocksOf(document, ...languages).filter(({ text }) => shown.includes(text))
  const reader = await startReader()
  const place = await prepare(reader, page)
  writeFiles(blocks, place)
  const { url } = await startEndpoint()
  const isOfRepository = (command: string): boolean => command.startsWith('npx -y pnpm@12 ')
  const isWanted = (command: string): boolean =>
    reasonNotToRun(command) === undefined &&
    (page.workspace === 'this repository' || !isOfRepository(command))
  const script = commandsOf(blocks, isWanted)
    .map((command) => command.replaceAll('http://127.0.0.1:8000/v1', url))
    .map((command) =>
      command.includes('http://127.0.0.1:8123')
        ? `with_server rollouts/my-agent/main.ts ${command}`
        : command,
    )
  const provider = { OPENAI_API_KEY: 'key', EVAL_OPENAI_KEY: 'key', OPENAI_BASE_URL: url }
  const printed = oneSpace(await reader.bash(script.join('\n'), place, provider))

  const promised = blocks.flatMap(({ language, text }) =>
    language === 'text' ? text.trim().split('\n') : [],
  )
  expect(promised.filter((line) => !printed.includes(oneSpace(line)))).toEqual([])
})

it('every command of a document is run, here or where it is said below', () => {
  const elsewhere = [
    'docs/platform.md',
    'docs/serving.md',
    'docs/operating.md',
    'docs/distributed.md',
    // training.test.ts
    ...documents.filter((document) => document.startsWith('docs/training/')),
  ]
  const run = new Set([...pages.map(({ document }) => document), ...elsewhere])
  const left = documents
    .filter((document) => !run.has(document))
    .flatMap((document) => blocksOf(document, 'bash', 'sh').map((block) => block.text))
    .flatMap((text) => commandLines(text))
    .filter((command) => reasonNotToRun(command) === undefined)
  expect(left).toEqual([])
})

const languages = ['ts', 'toml', 'jsonl', 'csv', 'md', 'bash', 'text']

/** Why a command is parsed by `document-commands.test.ts`, and not run here; undefined for all others. */
function reasonNotToRun(command: string): string | undefined {
  if (command.includes(' --interactive')) return 'a person answers: interactive.test.ts of the cli'
  if (command.includes(' --register')) return 'asks the platform: serve-registration.test.ts'
  if (command.startsWith('npm install ')) return 'installs: guides.test.ts, and the packed packages'
  if (/^npx (?:-y pnpm@12 )?(?:install|demo|test|run|changeset|exec vitest)\b/.test(command)) {
    return 'a script of this repository: demo.test.ts, and what runs this'
  }
  return command === 'bash .ci/run' ? 'runs this' : undefined
}

async function prepare(
  { folder, bash }: Reader,
  { workspace, filesOf, migrated, runs = [] }: Page,
): Promise<string> {
  let place = folder
  if (workspace === 'a new workspace') {
    await bash('npm create @osmosis@latest my-agent -- --framework openai-agents --yes', folder)
    place = path.join(folder, 'my-agent')
  }
  if (workspace === 'this repository') {
    cpSync(path.join(root, 'examples'), path.join(folder, 'examples'), {
      recursive: true,
      filter: (file) => !/\/(?:node_modules|\.osmosis)$/.test(file),
    })
  }
  if (filesOf !== undefined) writeFiles(blocksOf(filesOf, 'ts', 'jsonl'), place)
  if (migrated !== undefined) {
    const grader = "export { CalculatorGrader } from './grader.ts'"
    const file = path.join(place, migrated.to)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, `${read(migrated.program)}\n${grader}\n`)
  }
  for (const run of runs) {
    await bash(`npx osmosis eval run configs/eval/my-agent.toml --name ${run}`, place)
  }
  return place
}

/** A model, and a provider of models, that say the same to everybody. */
async function startEndpoint(): Promise<{ readonly url: string }> {
  return startPolicyEndpoint((response, _n, { path: asked, body }) => {
    if (asked.endsWith('/responses')) {
      const verdict = JSON.stringify({ explanation: 'It is polite.', score: 1 })
      const events = openaiEvents({ text: verdict })
      const lines = events.map(
        (event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
      )
      return sendStream(response, lines.join(''))
    }
    return body.stream === true
      ? sendStream(response, answerStream('It is 8.'))
      : sendJson(response, 200, answer)
  })
}

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

function oneSpace(text: string): string {
  return text.replaceAll(/ +/g, ' ').trim()
}
