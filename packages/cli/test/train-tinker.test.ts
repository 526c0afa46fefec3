import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'

inWorkspace()

const config = 'configs/training/doors.toml'

it('needs a key for the hosted service, and prints the plan without a service', async () => {
  const hosted = await osmosis(['train', 'tinker', config, '--dry-run'], { TINKER_API_KEY: '' })
  expect(hosted.code).not.toBe(0)
  expect(hosted.stderr).toContain(
    'https://tinker.thinkingmachines.dev/services/tinker-prod needs a key: set TINKER_API_KEY',
  )
  const planned = await osmosis(['train', 'tinker', config, '--dry-run', '--steps', '2'], {
    TINKER_API_KEY: 'tml-0123456789abcdef',
  })
  expect(planned.code).toBe(0)
  // 2 × 4 rows × 8 attempts, and 4 held-out rows × 4 attempts before and after.
  expect(planned.stderr).toMatch(/^At most +4,608 prompt, 1,536 sampled and 4,096 trained tokens$/m)
  const wrong = await osmosis(['train', 'tinker', config, '--prices', '1,2'])
  expect(wrong.stderr).toContain('It must be three prices, such as 0.13,0.4,0.4.')
})
