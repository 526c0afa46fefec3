// A scripted policy, which replaces a model and needs no key. It requests the price of each product and adds
// them up. The more products there are, the more often it forgets the quantities. It forgets them less often
// when the instructions say to multiply: like a model, it depends on the prompt.
import { createHash } from 'node:crypto'

import { scriptedPolicy, type ScriptedCall } from '@osmosis/controller'

const attempts = new Map<string, number>()

export const policy = scriptedPolicy((call) => {
  const question = lastText(call, 'user')
  const wanted = [...question.matchAll(/(\d+) ([a-z]+?)s?\b/g)].map(
    ([, pieces = '', product = '']) => ({ pieces: Number(pieces), product }),
  )
  const prices = call.messages.flatMap(({ role, content }) =>
    // Some programs write more than the result, which stands at the end.
    role === 'tool' ? [Number(/\S+$/.exec(textOf(content))?.[0])] : [],
  )
  const next = wanted[prices.length]
  if (next !== undefined) {
    const { product } = next
    return {
      content: `I look up the price of one ${product}.`,
      toolCalls: [{ name: toolName(call), arguments: { product } }],
    }
  }
  const isTold = /multipl|times|quantit|how many|number of|pieces/i.test(instructions(call))
  const forgets = errs(question, wanted.length, isTold)
  const total = wanted.reduce(
    (sum, { pieces }, index) => sum + (forgets ? 1 : pieces) * (prices[index] ?? 0),
    0,
  )
  return `I add up what they cost.\n#### ${total.toFixed(2)}`
})

/** Whether it forgets how many pieces were wanted: the same in every run of an evaluation. */
function errs(question: string, products: number, isTold: boolean): boolean {
  const attempt = attempts.get(question) ?? 0
  attempts.set(question, attempt + 1)
  const digest = createHash('sha256').update(`${attempt} ${question}`).digest()
  const chance = ([0, 0, 0.4][products] ?? 0.9) * (isTold ? 0.2 : 1)
  return digest.readUInt32BE() / 2 ** 32 < chance
}

function lastText({ messages }: ScriptedCall, role: string): string {
  return textOf(messages.findLast((message) => message.role === role)?.content)
}

function instructions({ messages }: ScriptedCall): string {
  return textOf(messages.find(({ role }) => role === 'system')?.content)
}

/** The name of the tool, before which MCP puts that of its server. */
function toolName({ tools }: ScriptedCall): string {
  const names = (tools as { function?: { name: string } }[]).map((tool) => tool.function?.name)
  return names.find((name) => name?.endsWith('look_up_price')) ?? 'look_up_price'
}

function textOf(content: ScriptedCall['messages'][number]['content']): string {
  if (typeof content === 'string') return content
  return content?.map(({ text }) => text ?? '').join('') ?? ''
}
