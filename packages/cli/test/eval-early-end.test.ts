import { writeFileSync } from 'node:fs'

import { expect, it } from 'vitest'

import { here, run } from './in-process.ts'
import { agents, migrated, session } from './migrated-workspace.ts'

const policy = `const message = { role: 'assistant', content: 'not what was asked for' }
const choices = [{ index: 0, message, finish_reason: 'stop' }]
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
export const policy = {
  name: 'fixed',
  respond: async () => Response.json({ id: 'a', object: 'chat.completion', created: 0, model: 'm', choices, usage }),
}
`

it('a rollout that an unusable answer ended is shown with the error of its framework', async () => {
  migrated(
    agents(`${session}
    const model = new OsmosisRolloutModel()
    const agent = new OsmosisAgent({ name: 'one', model, outputType: z.object({ total: z.number() }) })
    await run(agent, ctx.prompt, { session })`),
  )
  writeFileSync(here('policy.js'), policy)
  const ran = await run(['eval', 'run', 'configs/eval/one.toml', '--policy', 'policy.js'])
  expect(ran).toMatchObject({ code: 0 })
  const { stdout } = await run(['eval', 'show', 'latest', '0.1'])
  expect(stdout).toMatch(/^model_error {2}output: .*[Ii]nvalid/m)
})
