import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { root } from '../examples/command.ts'
import { answerStream, sendJson, sendStream, startPolicyEndpoint, usage } from '../kit/index.ts'
import { openaiEvents } from '../kit/provider-stand-in.ts'
import { blocksOf, read, section } from '../repository/documents.ts'
import { reasonNotToRun, type Page } from './pages.ts'
import { commandsOf, makeWorkspace, startReader, writeFiles, type Reader } from './reader.ts'

const languages = ['ts', 'toml', 'jsonl', 'csv', 'md', 'bash', 'text']

/** Does what a page says, and resolves with what it promises to be printed and was not. */
export async function readPage(page: Page): Promise<string[]> {
  const { document, part, processes } = page
  const shown = part === undefined ? read(document) : section(read(document), part)
  const blocks = blocksOf(document, ...languages).filter(({ text }) => shown.includes(text))
  const reader = await startReader(processes === 'all' ? 'processes' : 'here')
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
    .map((command) =>
      typeof processes === 'object' && command.includes(processes.words)
        ? `COMMANDS_PORT= ${command}`
        : command,
    )
  const provider = { OPENAI_API_KEY: 'key', EVAL_OPENAI_KEY: 'key', OPENAI_BASE_URL: url }
  // Pages show what a terminal of ordinary width does.
  const env = { ...provider, COLUMNS: '80' }
  const printed = oneSpace(await reader.bash(script.join('\n'), place, env))

  const promised = blocks.flatMap(({ language, text }) =>
    language === 'text' ? text.trim().split('\n') : [],
  )
  return promised.filter((line) => !printed.includes(oneSpace(line)))
}

async function prepare(
  reader: Reader,
  { workspace, filesOf, migrated, runs = [] }: Page,
): Promise<string> {
  const { folder, bash } = reader
  const place = workspace === 'a new workspace' ? await makeWorkspace(reader) : folder
  if (workspace === 'this repository') {
    cpSync(path.join(root, 'examples'), path.join(folder, 'examples'), {
      recursive: true,
      filter: (file) => !/\/(?:node_modules|\.osmosis)$/.test(file),
    })
  }
  if (filesOf !== undefined) writeFiles(blocksOf(filesOf, 'ts', 'jsonl'), place)
  if (migrated !== undefined) {
    writeFileSync(path.join(place, 'package.json'), '{ "type": "module" }')
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
