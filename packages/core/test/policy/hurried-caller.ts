import { RolloutContext } from '@osmosis/core'
import { request } from 'undici'

// Run by a test in a process of its own, because its clock stays hurried: undici counts the ticks of
// a timer, and here they come a thousand times faster.
const real = globalThis.setTimeout
Object.assign(globalThis, {
  setTimeout: (callback: (...args: unknown[]) => void, delay = 0, ...args: unknown[]) =>
    real(callback, delay / 1000, ...args),
})

const [url = ''] = process.argv.slice(2)

/** The code of the error with which a client of ordinary limits ends. */
async function ordinaryCall(): Promise<unknown> {
  try {
    const { body } = await request(`${url}/chat/completions`, { method: 'POST', body: '{}' })
    return await body.text()
  } catch (error) {
    return (error as { code?: unknown }).code
  }
}

async function ourCall(): Promise<unknown> {
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url })
  const { choices } = await context.policy('main').complete({ messages: [] })
  return choices[0]?.message.content
}

const ours = ourCall()
const ordinary = [await ordinaryCall(), await ordinaryCall()]
process.stdout.write(JSON.stringify({ ordinary, ours: await ours }))
