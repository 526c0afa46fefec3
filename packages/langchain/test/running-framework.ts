import { inject } from 'vitest'

/** False on the oldest version that the package supports. */
export const isNewestFramework = !inject('lowestFrameworks')
