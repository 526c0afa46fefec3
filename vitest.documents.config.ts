import { defineConfig } from 'vitest/config'

import { filesWithTag, runDefaults, testDefaults } from './vitest.shared.ts'

// Kept out of `pnpm test`: some hundred commands, a third of them in processes of their own.
export default defineConfig({
  test: {
    ...testDefaults,
    ...runDefaults,
    name: 'documents',
    include: ['test/documents/*.test.ts'],
    exclude: filesWithTag('nightly', 'all'),
  },
})
