import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { errorMessage, RolloutContext } from '@osmosis/core'

import { takeAllFiles } from '../../../../test/kit/starved/taken-files.ts'

// A process that has no free file descriptor at its first model call.
const message = { role: 'assistant', content: 'yes' }
const answer = { choices: [{ index: 0, finish_reason: 'stop', message }] }
const server = createServer((_, response) => {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo
const policyLimits = { awaySeconds: 0 }
const chatCompletionsUrl = `http://127.0.0.1:${port}/v1`
const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl, policyLimits })

async function ask(): Promise<unknown> {
  try {
    const messages = [{ role: 'user', content: 'Is it?' }]
    const { choices } = await context.policy('main').complete({ messages }, { retries: 0 })
    return choices[0]?.message.content
  } catch (error) {
    return errorMessage(error)
  }
}

const giveBack = takeAllFiles()
const said = await ask()
giveBack()
console.log(said)
console.log(await ask())
process.exit()
