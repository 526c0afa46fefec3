import { expect, it } from 'vitest'

import { serveHere } from '../examples/served-here.ts'
import { commandLines } from '../repository/command-line.ts'
import { blocksOf } from '../repository/documents.ts'

/** Documents whose commands serve until they are ended, but for those that install something. */
const servingDocuments = ['docs/operating/serving.md', 'docs/operating/servers.md']

const commands = servingDocuments
  .flatMap((document) => blocksOf(document, 'bash').map(({ text }) => text))
  .flatMap((text) => commandLines(text))
  .filter((command) => !command.startsWith('npm install '))

it.each([...new Set(commands)])('%s serves, and ends on SIGTERM', async (command) => {
  const [, args = ''] = /^npx osmosis serve (.*)$/.exec(command) ?? []
  const words = args.split(' ').map((word) => word.replaceAll("'", ''))
  await serveHere(words, async (url) => {
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })
})
