// @module-tag slow
import { expect, it } from 'vitest'

import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

// A program that somebody has made a rollout: it takes the name of a file from the command line, if there is one.
const files = {
  'osmosis.toml': '',
  'program.ts': `const [, , file] = process.argv
if (file !== undefined) throw new Error('the program was given ' + file)
`,
  'rollouts/argued/main.ts': "import '../../program.ts'\nexport * from '../echo/main.ts'\n",
  'configs/eval/argued.toml': evalConfig('argued'),
}

it.each([
  'validate argued --policy policies/echo.ts',
  'eval run configs/eval/argued.toml --policy policies/echo.ts',
  'eval run configs/eval/argued.toml --policy policies/echo.ts --workers 1',
])('programs that an entrypoint imports see no argument of osmosis %s', async (words) => {
  const output = words.startsWith('eval') ? ['--output', temporaryFolder()] : []
  const ended = await osmosis([...words.split(' '), ...output], {}, temporaryWorkspace(files))
  expect(ended).toMatchObject({ code: 0 })
})

it('programs that an entrypoint imports see no argument of osmosis serve', async () => {
  const words = 'serve rollouts/argued/main.ts --port 0 --no-auth'
  const server = startOsmosis(words.split(' '), {}, temporaryWorkspace(files))
  await server.printed(/Listening on/)
  server.child.kill('SIGTERM')
  expect(await server.finished).toMatchObject({ code: 0 })
})
