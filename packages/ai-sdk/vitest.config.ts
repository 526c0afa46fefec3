import { defineConfig } from 'vitest/config'

import { bothEndsOf } from '../../vitest.shared.ts'

export default defineConfig({ test: { projects: bothEndsOf('ai') } })
