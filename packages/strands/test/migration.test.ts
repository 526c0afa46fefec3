import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'

import { expect } from 'vitest'

import { calculatorRequest, printedBy, runMigrationContract } from '../../../test/kit/index.ts'
import { MathGrader } from './examples/calculator.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [system, question] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MathGrader,
  users: { tags: 'slow' },
  async serveUser(program) {
    const start = { toolUse: { toolUseId: 'call-1', name: 'multiply' } }
    await using bedrock = await startBedrockEndpoint([
      [
        ['messageStart', { role: 'assistant' }],
        ['contentBlockStart', { contentBlockIndex: 0, start }],
        [
          'contentBlockDelta',
          { contentBlockIndex: 0, delta: { toolUse: { input: '{"a":12,"b":34}' } } },
        ],
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ['messageStop', { stopReason: 'tool_use' }],
      ],
      [
        ['messageStart', { role: 'assistant' }],
        ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: '12 times 34 is 408.' } }],
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ['messageStop', { stopReason: 'end_turn' }],
      ],
    ])
    const env = {
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: bedrock.url,
      AWS_REGION: 'us-west-2',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    }
    const { stdout, stderr } = await printedBy(program, env)
    expect(stderr).toBe('')
    expect(bedrock.requests[0]).toMatchObject({
      inferenceConfig: { temperature: 1, maxTokens: 4096 },
      system: [{ text: system.content }],
      messages: [{ role: 'user', content: [{ text: question.content }] }],
      toolConfig: { tools: [{ toolSpec: { name: 'multiply' } }] },
    })
    return stdout
  },
})

/** One event of Bedrock's ConverseStream, by its name. */
type BedrockEvent = readonly [name: string, payload: object]

/** An endpoint of Bedrock under the control of a test. */
interface BedrockEndpoint extends AsyncDisposable {
  readonly url: string
  /** The bodies of all requests. */
  readonly requests: Record<string, unknown>[]
}

/** Starts an endpoint that answers by script, over HTTP/2 as the AWS client speaks it. */
async function startBedrockEndpoint(
  answers: readonly (readonly BedrockEvent[])[],
): Promise<BedrockEndpoint> {
  const requests: Record<string, unknown>[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const events = answers[requests.length] ?? []
      requests.push(JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>)
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
      response.end(Buffer.concat(events.map(encoded)))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: async () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
      }),
  }
}

/** A message in the binary form of AWS event streams. */
function encoded([name, payload]: BedrockEvent): Buffer {
  const headers = Buffer.concat([
    header(':message-type', 'event'),
    header(':event-type', name),
    header(':content-type', 'application/json'),
  ])
  const body = Buffer.from(JSON.stringify(payload))
  const prelude = Buffer.alloc(8)
  prelude.writeUInt32BE(16 + headers.length + body.length, 0)
  prelude.writeUInt32BE(headers.length, 4)
  const message = Buffer.concat([prelude, checksum(prelude), headers, body])
  return Buffer.concat([message, checksum(message)])
}

function header(name: string, value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  const typeOfText = 7
  return Buffer.concat([
    Buffer.from([name.length]),
    Buffer.from(name),
    Buffer.from([typeOfText]),
    length,
    Buffer.from(value),
  ])
}

function checksum(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(bytes))
  return sum
}
