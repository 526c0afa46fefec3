// A policy endpoint that does nothing but answer: the same streamed answer to every request, as a
// process of its own, so that its time is not counted as that of the client.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// Without latency the client would be measured at its limit, where waiting for one another is all
// there is; with the same latency for all, answers would come in bursts. Spread evenly by the golden
// ratio, both clients meet the same latencies.
const latencyMs = Number(process.env['LATENCY_MS'] ?? 100)
const chunks = Number(process.env['ANSWER_CHUNKS'] ?? 20)

function event(delta: object, finishReason: string | null): string {
  const choice = { index: 0, delta, finish_reason: finishReason }
  const chunk = {
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [choice],
  }
  return `data: ${JSON.stringify(chunk)}\n\n`
}

const words = Array.from({ length: chunks }, (_, n) => event({ content: `word${n} ` }, null))
const answer = `${event({ role: 'assistant' }, null)}${words.join('')}${event({}, 'stop')}data: [DONE]\n\n`

let answered = 0
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    setTimeout(
      () => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(answer)
      },
      latencyMs * (1 + ((answered++ * 0.618034) % 1)),
    )
  })
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
