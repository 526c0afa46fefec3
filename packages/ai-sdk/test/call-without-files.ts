import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { rolloutModel } from '@osmosis/ai-sdk'
import { errorMessage, RolloutContext } from '@osmosis/core'
import { generateText } from 'ai'

import { takeAllFiles } from '../../../test/kit/starved/taken-files.ts'

// A process that has no free file descriptor when its model is first called.
const message = { role: 'assistant', content: 'yes' }
const answer = { choices: [{ index: 0, finish_reason: 'stop', message }] }
const server = createServer((_, response) => {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo
const context = new RolloutContext({
  rolloutId: 'r',
  chatCompletionsUrl: `http://127.0.0.1:${port}/v1`,
})
// Opens the connection.
await context.policy('other').complete({ messages: [{ role: 'user', content: 'Is it?' }] })

async function ask(): Promise<string> {
  try {
    return (await generateText({ model: rolloutModel(), prompt: 'Is it?', maxRetries: 0 })).text
  } catch (error) {
    return errorMessage(error)
  }
}

const giveBack = takeAllFiles()
const said = await context.run(ask)
giveBack()
console.log(said)
console.log(await context.run(ask))
process.exit()
