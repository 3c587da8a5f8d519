/* A shared object like any other. */
int cohort_is_not_asked(void);
int cohort_is_not_asked(void) { return 0; }
