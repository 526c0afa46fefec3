// Sends the rows of stdin to a rollout server, whose URL and key are the arguments, and prints how each ended. Cancels what hangs.
import { text } from 'node:stream/consumers'

import { createController, createRolloutClient, scriptedPolicy } from '@osmosis/controller'

interface Row {
  readonly question: string
  readonly answer: string
  readonly want: string
}

const [url = '', apiKey = ''] = process.argv.slice(2)
const server = { url, apiKey }
const rows = JSON.parse(await text(process.stdin)) as Row[]
const controller = await createController({ policy: scriptedPolicy(() => 'ok'), server })
const client = createRolloutClient({ baseUrl: url, apiKey })

async function endOf({ question, answer, want }: Row): Promise<object> {
  const order = {
    initialMessages: [{ role: 'user', content: question }],
    label: answer,
    metadata: { want },
    timeoutMs: 60_000,
  }
  const { status, errorMessage, samples } = await controller.run(order, { fetchResult: true })
  const [sample] = samples.values()
  const roles = sample?.messages.map((message) => (message as { role: string }).role) ?? []
  return {
    status,
    error: errorMessage,
    roles,
    reward: sample?.reward,
    removed: sample?.removeSample,
  }
}

async function cancelled(row: Row): Promise<object> {
  const abort = new AbortController()
  const order = {
    initialMessages: [{ role: 'user', content: row.question }],
    metadata: { want: row.want },
  }
  const onStatus = (status: string): void => {
    if (status === 'running') setTimeout(() => abort.abort(), 500)
  }
  const ended = controller.run(order, { fetchResult: true, signal: abort.signal, onStatus })
  const isCancelled = await ended.then(
    () => false,
    (error: unknown) => error === abort.signal.reason,
  )
  await client.waitIdle({ timeoutSeconds: 20 })
  return { cancelled: isCancelled }
}

try {
  await client.waitIdle({ timeoutSeconds: 60 })
  const ends = await Promise.all(rows.filter(({ want }) => want !== 'hangs').map(endOf))
  for (const row of rows.filter(({ want }) => want === 'hangs')) ends.push(await cancelled(row))
  console.log(JSON.stringify(ends))
} finally {
  await client.close()
  await controller.close()
}
